from app.components.page import open_page

page = open_page("controls")
page.finish()
