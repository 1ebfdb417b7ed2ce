"""The panels, a module each; every module has its PANEL."""
