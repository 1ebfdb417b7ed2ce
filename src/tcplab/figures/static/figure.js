// Replace an SVG image with a drawing in the page's font and theme, whose parts have explanations. A drawing
// with a time axis can be played. STYLE is the text of figure.css, which tcplab.figures.element adds.

const HINT = "Point at a bar or an arrow, or step through them, to read its explanation here.";
const text = (uri) => new TextDecoder().decode(Uint8Array.from(atob(uri.split(",")[1]), (c) => c.charCodeAt(0)));

class TcplabFigure extends HTMLElement {
  connectedCallback() {
    const open = () => this.shadowRoot ?? this.open();
    // The parser calls this before it has added the image.
    document.readyState === "loading" ? addEventListener("DOMContentLoaded", open) : open();
  }

  open() {
    const image = this.querySelector("img");
    if (!image) return;
    const root = this.attachShadow({ mode: "open" });
    root.innerHTML = `<style>${STYLE}</style><div class="drawing">${text(image.src)}</div><div class="below"><button>▶ Play</button><button aria-label="Back">◀</button><button aria-label="Next">▶</button><p role="status">${HINT}</p></div>`;
    [this.drawing, this.below] = root.querySelectorAll("div");
    [this.button, this.back, this.next, this.words] = this.below.children;
    this.svg = this.drawing.firstElementChild;
    const groups = [...this.svg.querySelectorAll(".part")];
    this.svg.setAttribute("role", groups.length ? "group" : "img");
    this.svg.setAttribute("aria-label", image.alt);
    this.drawing.tabIndex = groups.length ? -1 : 0; // it may scroll
    const atEdge = () => {
      const { scrollLeft, clientWidth, scrollWidth } = this.drawing;
      this.toggleAttribute("data-before", scrollLeft > 2);
      this.toggleAttribute("data-more", scrollLeft + clientWidth < scrollWidth - 2);
    };
    this.drawing.addEventListener("scroll", atEdge);
    new ResizeObserver(atEdge).observe(this.drawing);
    if (!groups.length) return this.below.remove();
    for (const group of groups) {
      group.querySelector("title").remove(); // the text below the drawing replaces it
      for (const path of group.querySelectorAll(":scope > path")) group.append(Object.assign(path.cloneNode(), { classList: "hit" }));
    }
    // The first group of a part is its mark, and the others are its labels.
    this.parts = [...new Set(groups.map((each) => each.dataset.part))].map((name) => groups.filter((each) => each.dataset.part === name));
    const axis = this.svg.dataset.times ? "x" : "y"; // x for a timeline, y for a diagram whose time runs downwards
    this.parts.sort(([a], [b]) => a.getBBox()[axis] - b.getBBox()[axis]);
    for (const [mark, ...others] of this.parts) {
      mark.setAttribute("tabindex", mark === this.parts[0][0] ? 0 : -1);
      for (const each of others) each.setAttribute("aria-hidden", "true");
    }
    this.times = JSON.parse(this.svg.dataset.times ?? "[]");
    this.button.hidden = !this.times.length;
    this.button.onclick = () => (this.end ? this.end() : this.play());
    this.back.onclick = () => this.step(-1);
    this.next.onclick = () => this.step(1);
    this.dataset.lmSuppressShortcuts = "true"; // keeps the arrow keys from JupyterLab
    this.onkeydown = (event) => this.key(event);
    for (const event of ["pointerover", "focusin"]) this.drawing.addEventListener(event, ({ target }) => this.choose(target.closest(".part")));
    for (const event of ["pointerleave", "focusout"]) this.drawing.addEventListener(event, () => this.choose(null));
  }

  choose(group) {
    if (this.end && group) return;
    const part = group && this.parts.find((each) => each.includes(group));
    if (part) this.at = this.parts.indexOf(part);
    this.svg.classList.toggle("chosen", !!part);
    for (const each of this.svg.querySelectorAll(".part")) each.classList.toggle("on", !!part?.includes(each));
    if (part) this.words.textContent = part[0].ariaLabel;
  }

  /** Arrow keys move from part to part, and Escape stops playing. */
  key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") this.end?.();
    event.stopPropagation();
    if (!by) return;
    event.preventDefault();
    this.step(by);
  }

  step(by) {
    this.end?.();
    this.at = ((this.at ?? -1) + by + this.parts.length) % this.parts.length;
    const [next] = this.parts[this.at];
    for (const [mark] of this.parts) mark.setAttribute("tabindex", mark === next ? 0 : -1);
    if (this.below.contains(this.shadowRoot.activeElement)) this.choose(next);
    else next.focus({ preventScroll: true });
    const { x, width } = next.getBBox();
    this.show(x + width / 2);
  }

  /** Scroll a drawing that is wider than the screen until this place, in its units, is visible. */
  show(at) {
    const unit = this.svg.clientWidth / this.svg.viewBox.baseVal.width;
    this.drawing.scrollLeft = at * unit - 0.6 * this.drawing.clientWidth;
  }

  /** Play the time axis. In general 1 ms takes 0.1 s, but each of its stretches takes 1.6 to 8 s. */
  play() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const { x, y, width, height } = this.svg.viewBox.baseVal;
    const stretches = this.times.map(([left, right, from, to]) => ({ left, right, from, to, s: Math.min(Math.max((to - from) / 10, 1.6), 8) }));
    const parts = this.parts.map(([mark, ...words]) => ({ mark, words, box: mark.getBBox(), line: mark.querySelector("path") }));
    this.svg.insertAdjacentHTML("beforeend", `<clipPath id="past"><rect x="${x}" y="${y}" width="0" height="${height}"/></clipPath><line class="now" y1="${y}" y2="${y + height}"/><g class="dots"></g>`);
    const [clip, now, dots] = [...this.svg.children].slice(-3);
    for (const { mark } of parts) mark.setAttribute("clip-path", "url(#past)");
    this.drawing.classList.add("playing");
    this.button.textContent = "■ Stop";
    let said = "";
    const until = (at, time, slowed) => {
      this.show(at);
      clip.firstChild.setAttribute("width", at - x);
      for (const end of ["x1", "x2"]) now.setAttribute(end, at);
      dots.replaceChildren();
      for (const { mark, words, box, line } of parts) {
        const part = (at - box.x) / (box.width || 1);
        for (const each of words) each.classList.toggle("later", part < 1);
        if (part >= 1 && mark.dataset.part.startsWith("hold")) said = mark.ariaLabel;
        if (still || part <= 0 || part >= 1 || !/^(segment|ack)/.test(mark.dataset.part)) continue;
        const { x: cx, y: cy } = line.getPointAtLength(part * line.getTotalLength());
        dots.insertAdjacentHTML("beforeend", `<circle class="dot" r="5" cx="${cx}" cy="${cy}"/>`);
      }
      this.words.textContent = `${time.toPrecision(3)} ms, slowed down ${slowed} times. ${said}`;
    };
    let frame, begin;
    const tick = (at) => {
      let s = (at - (begin ??= at)) / 1000;
      const stretch = stretches.find((each) => s < each.s || ((s -= each.s), false));
      if (!stretch) return this.end();
      let share = s / stretch.s;
      if (still) share = Math.round(share * 3) / 3; // three jumps instead of motion
      const { left, right, from, to } = stretch;
      const slowed = Number(((stretch.s * 1000) / (to - from)).toPrecision(1)).toLocaleString("en");
      until(left + share * (right - left), from + share * (to - from), slowed);
      frame = requestAnimationFrame(tick);
    };
    this.end = () => {
      cancelAnimationFrame(frame);
      this.end = null;
      for (const each of [clip, now, dots]) each.remove();
      for (const { mark } of parts) mark.removeAttribute("clip-path");
      this.drawing.classList.remove("playing");
      this.button.textContent = "▶ Play";
      this.words.textContent = said || HINT;
    };
    frame = requestAnimationFrame(tick);
  }
}
customElements.get("tcplab-figure") ?? customElements.define("tcplab-figure", TcplabFigure);
