"""What an operator can do, one class a noun; `delivery.App` puts them together."""
