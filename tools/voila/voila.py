"""The settings of Voilà, which shows a demo as a page of its own (tools/open-demo)."""

c = get_config()  # noqa: F821 (traitlets)

# Only who has the address may run anything; it is printed, and the browser gets it.
c.Voila.auto_token = True
c.VoilaConfiguration.show_margins = False
c.VoilaConfiguration.extension_denylist = ["@jupyter/nbgrader"]
# Its page asks a server elsewhere for a font of icons; a network may keep it waiting.
c.Voila.tornado_settings = {
    "headers": {"Content-Security-Policy": "style-src 'self' 'unsafe-inline'"}
}
