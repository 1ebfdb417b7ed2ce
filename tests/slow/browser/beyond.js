// What of a demo crosses the edge of the window, and its type of less than 2.2 % of the height: of all that is visible, the
// figure's letters too. What its drawing has cut off is not. On a 4:3 wall the line below a drawing may be
// scrolled to, and the drawing too if a note pushes it down.
() => {
  const within = (one) => [one, ...(one.shadowRoot?.querySelectorAll("*") ?? [])];
  const all = [...document.querySelectorAll(".tcplab-demo, .tcplab-demo *")].flatMap(within);
  const seen = all.filter((one) => {
    if (!one.checkVisibility() || ["title", "STYLE"].includes(one.tagName)) return false;
    const box = one.getBoundingClientRect();
    const drawing = one.ownerSVGElement?.getBoundingClientRect();
    return !drawing || (box.bottom > drawing.top + 1 && box.top < drawing.bottom - 1);
  });
  const noted = document.querySelector(".tcplab-status").textContent.includes("Note:");
  const high = `.tcplab-demo:not([data-stacked]) *, .tcplab-controls *${noted ? "" : ", svg"}`;
  const beyond = seen.filter((one) => {
    const { width, bottom, right } = one.getBoundingClientRect();
    const leaves = right > innerWidth + 1 || (bottom > innerHeight + 1 && one.matches(high));
    return width && !one.ownerSVGElement && leaves;
  });
  const small = seen.filter((one) => {
    const hasWords = [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    const { a, b } = (one.ownerSVGElement && one.getScreenCTM()) ?? { a: one.currentCSSZoom, b: 0 };
    return hasWords && parseFloat(getComputedStyle(one).fontSize) * Math.hypot(a, b) < 0.022 * innerHeight;
  });
  return [...beyond, ...small].map((one) => one.outerHTML.slice(0, 160));
}
