// What scrolls can be scrolled by key; a heading that the theme calls one has a level.
addEventListener("load", () => {
  const scrolls = (box) => box.scrollWidth > box.clientWidth;
  for (const box of [...document.querySelectorAll("pre, table, .text_html")].filter(scrolls)) box.tabIndex = 0;
  for (const heading of document.querySelectorAll("[role=heading]:not([aria-level])")) heading.ariaLevel = 2;
});
