from app.components.page import open_page

page = open_page("reliability")
page.finish()
