"""The panels. Each module defines its panel as PANEL."""
