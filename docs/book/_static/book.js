// For keyboards and screen readers: what scrolls can be reached, and the theme's parts have names and levels.
addEventListener("load", () => {
  for (const one of document.querySelectorAll("pre, table, .table-wrapper, .text_html, p:has(> img)"))
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
  for (const one of document.querySelectorAll("[role=heading]:not([aria-level])")) one.ariaLevel = 2;
  for (const one of document.querySelectorAll("th:empty, th:has(> p:only-child:empty)"))
    one.replaceWith(document.createElement("td"));
  for (const one of document.querySelectorAll("details.hide summary")) one.removeAttribute("aria-label"); // its text is enough
  document.querySelector(".sidebar-drawer").ariaLabel = "All pages";
  document.querySelector(".toc-drawer").ariaLabel = "This page";
});
