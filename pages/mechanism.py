from app.components.page import open_page

page = open_page("mechanism")
page.finish()
