"""Acts on people that staff have on a page and machines by the API: each is declared once."""
