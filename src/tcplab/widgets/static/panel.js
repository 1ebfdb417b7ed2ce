// The part of a panel that ipywidgets has not: a chart, a strip chart and a stepper; names and roles
// for its widgets where it gives none; and what only a page can do: copy, save, fill the screen.
//
// The traits are those of tcplab.widgets.view.Figure. Messages to the kernel are "warm" and "ping",
// those from it {sample}, {mark}, {save} and {alive}.

const SVG = "http://www.w3.org/2000/svg";
const STRIP_S = 20;
const ASK_MS = 400, LOST_MS = 1200;

/** An element with attributes and children; a string child is text, never markup. */
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Three significant digits: 0.0255, 44, 12,300. */
function digits(value) {
  if (!Number.isFinite(value)) return "–";
  const rounded = Number(value.toPrecision(3));
  return rounded.toLocaleString("en", { maximumFractionDigits: 6, useGrouping: rounded >= 10000 });
}

const short = (value) =>
  value >= 1e6 ? `${digits(value / 1e6)}M` : value >= 1e4 ? `${digits(value / 1e3)}k` : digits(value);

// ---- charts ----------------------------------------------------------------------------------

/** Position on an axis from `start` to `end`, and its round values, about as many as `most`. */
function makeAxis({ low, high, scale }, start, end, most) {
  const part = (value) => (scale === "log" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const at = (value) => start + (end - start) * Math.min(Math.max(part(Math.max(value, low)), 0), 1);
  const rough = scale === "log" ? 0 : (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(rough || 1));
  const step = unit * ([1, 2, 5].find((lead) => lead * unit >= rough) ?? 10);
  const leads = Math.log10(high / low) > most / 3 ? [1] : [1, 2, 5];
  const ticks = scale === "log"
    ? [...Array(12).keys()].flatMap((power) => leads.map((lead) => lead * 10 ** power))
    : [...Array(Math.ceil(most) + 2).keys()].map((index) => Math.ceil(low / step) * step + index * step);
  return { at, ticks: ticks.filter((value) => value >= low * 0.999 && value <= high * 1.001) };
}

/** Lines over two axes, in pixels of the page: its type is as large in a narrow panel as in a wide one. */
function plot(data, box) {
  const { left, right, top, bottom } = box;
  const [xs, ys] = [makeAxis(data.x, left, right, (right - left) / 70), makeAxis(data.y, bottom, top, (bottom - top) / 45)];
  const line = (x1, y1, x2, y2, kind) => draw("line", { x1, y1, x2, y2, class: kind });
  const text = (x, y, words, anchor = "start", kind = "") => draw("text", { x, y, "text-anchor": anchor, class: kind }, words);
  const parts = [];
  if (data.x.label) for (const x of xs.ticks) parts.push(line(xs.at(x), top, xs.at(x), bottom, "grid"), text(xs.at(x), bottom + 20, short(x), "middle"));
  for (const y of ys.ticks) parts.push(line(left, ys.at(y), right, ys.at(y), "grid"), text(left - 6, ys.at(y) + 5, short(y), "end"));
  if (data.x.label) parts.push(text((left + right) / 2, bottom + 42, data.x.label, "middle", "heading"));
  parts.push(text(left, top - 9, data.y.label, "start", "heading"));
  data.marks.forEach((mark, index) => {
    const [x, isRight] = [xs.at(mark.x), xs.at(mark.x) > (left + right) / 2];
    parts.push(line(x, top, x, bottom, "mark"), text(x + (isRight ? -6 : 6), bottom - 8 - 19 * (index % 3), mark.label, isRight ? "end" : "start"));
  });
  for (const { kind, points } of data.lines) {
    const places = points.map(([x, y]) => [xs.at(x).toFixed(1), ys.at(y).toFixed(1)]);
    if (kind.startsWith("run")) parts.push(...places.map(([x, y]) => marker(kind, x, y)));
    else parts.push(draw("path", { d: `M${places.join("L")}`, class: `line ${kind}` }));
  }
  if (data.level) parts.push(line(left, ys.at(data.level.y), right, ys.at(data.level.y), "level"), text(right, ys.at(data.level.y) - 6, data.level.label, "end"));
  data.lines.filter(({ label }) => label).forEach(({ kind, label }, index) => {
    const y = top + 14 + index * 20;
    parts.push(kind === "model" ? draw("path", { d: `M${left + 8} ${y - 5}h22`, class: "line model" }) : marker(kind, left + 19, y - 5), text(left + 36, y, label));
  });
  return draw("g", {}, ...parts);
}

/** The marks of a course's events, from the line of its row. */
const EVENTS = { call: "v-15", segment: "v18m-4 -6l4 6l4 -6", ack: "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", reply: "m0 -8l8 8l-8 8l-8 -8z" };

/** Messages on one axis of time: for each row its writes, the segments that leave, the ACKs and the waits between. */
function courses({ rows, level }, { left, right, top, bottom }) {
  const high = 1.12 * Math.max(...rows.map((row) => row.end), level?.x ?? 0.01), tall = (bottom - top) / rows.length;
  const axis = makeAxis({ low: 0, high, scale: "linear" }, left, right, (right - left) / 90), size = Math.min(Math.max(tall / 80, 1), 3);
  const path = (d, kind, place) => draw("path", { d, class: kind, transform: place ?? "" });
  const text = (x, y, words, kind = "", anchor = "start") => draw("text", { x, y, class: kind, "text-anchor": anchor }, words);
  const parts = axis.ticks.flatMap((ms) => [path(`M${axis.at(ms)} ${top}V${bottom}`, "grid"), text(axis.at(ms), bottom + 18, short(ms), "", "middle")]);
  parts.push(text((left + right) / 2, bottom + 38, "ms since the first write   ( | write   ↓ segment   ○ ACK   ◇ reply )", "", "middle"));
  rows.forEach(({ kind, label, events, waits, end, shown }, index) => {
    const y = top + tall * (index + (size > 1 ? 0.45 : 0.6)), x = axis.at(end);
    parts.push(path(`M${left} ${y}H${x}`, `line base ${kind}`), text(left, y - 8 - 15 * size, label, "heading"), text(x + 4 + 8 * size, y + 5, shown));
    for (const [from, to] of waits) {
      const [start, wide] = [axis.at(from), Math.max(axis.at(to) - axis.at(from), 2)];
      parts.push(draw("rect", { x: start, y: y - 9 * size, width: wide, height: 18 * size, class: `line wait ${kind}` }));
      if (wide > 90) parts.push(text(start + wide / 2, y + 5, "data wait", "", "middle"));
    }
    let free = -Infinity;
    for (const [ms, what, bytes] of events) {
      parts.push(path(`M0 0${EVENTS[what]}`, `line ${what} ${kind}`, `translate(${axis.at(ms)} ${y}) scale(${size})`));
      if (what !== "segment" || axis.at(ms) < free) continue;
      parts.push(text(axis.at(ms) + 6 * size, y + 2 + 17 * size, `${bytes} B`));
      free = axis.at(ms) + 50;
    }
  });
  if (level) parts.push(path(`M${axis.at(level.x)} ${top}V${bottom}`, "level"), text(axis.at(level.x), top - 6, level.label, "", axis.at(level.x) > (left + right) / 2 ? "end" : "start"));
  return draw("g", {}, ...parts);
}

/** Runs differ in the shape of their points, too. */
function marker(kind, x, y) {
  const shape = { run0: "m-6 -6h12v12h-12z", run1: "m0 -8l8 14h-16z", run2: "m-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z" };
  return draw("path", { d: `M${x} ${y}${shape[kind]}`, class: `marker ${kind}` });
}

/** Draws by `paint(width, height)`, again when `element` has another size. */
function drawing(element, paint) {
  const svg = draw("svg", { role: "img" });
  let wanted = false;
  const update = () => {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      const { clientWidth: width, clientHeight: height } = element;
      if (!width || !height) return;
      filled(svg, { width, height, viewBox: `0 0 ${width} ${height}` }, []);
      svg.replaceChildren(...paint(width, height, svg));
    });
  };
  element.append(svg);
  new ResizeObserver(update).observe(element);
  return update;
}

function chart(element, model) {
  const update = drawing(element, (width, height, svg) => {
    const data = model.get("data");
    svg.setAttribute("aria-label", data.alt);
    element.style.minHeight = `${Math.max(80 + 50 * (data.rows?.length ?? 0), 180)}px`;
    if (data.rows) return [courses(data, { left: 16, right: width - 70, top: 26, bottom: height - 50 })];
    // Room for the legend above the lines.
    const { low, scale } = data.y, legend = 20 * data.lines.length, more = 1 + legend / Math.max(height - 86 - legend, 20);
    const high = scale === "log" ? low * (data.y.high / low) ** more : data.y.high * more;
    return [plot({ ...data, y: { ...data.y, high } }, { left: 62, right: width - 16, top: 30, bottom: height - 56 })];
  });
  model.on("change:data", update);
}

/** The readings of a live run, the last seconds of them. */
function strips(element, model) {
  let samples = [], marks = [];
  const update = drawing(element, (width, height, svg) => {
    const { lanes } = model.get("data");
    svg.setAttribute("aria-label", `Strip chart of ${lanes.map((lane) => lane.label).join(", ")}`);
    const high = Math.max(samples.at(-1)?.t ?? 0, STRIP_S), low = high - STRIP_S;
    const seen = samples.filter(({ t }) => t >= low);
    return lanes.map(({ key, label, top, level }, index) => {
      const highest = Math.max(top, level ?? 0, ...seen.map((sample) => sample[key])) * 1.05;
      const data = {
        x: { low, high }, y: { low: 0, high: highest, label: `${label}: ${digits(samples.at(-1)?.[key])}` },
        lines: [{ kind: `lane${index}`, points: seen.map((sample) => [sample.t, sample[key]]) }],
        level: level && { y: level, label: `the model: ${digits(level)}` },
        marks: marks.filter(({ x }) => x >= low).map(({ x, label }) => ({ x, label: index ? "" : label })),
      };
      const lane = height / lanes.length;
      return plot(data, { left: 56, right: width - 12, top: index * lane + 26, bottom: (index + 1) * lane - 8 });
    });
  });
  model.on("change:data", update);
  model.on("change:phase", () => {
    if (model.get("phase") !== "running" || element.dataset.phase === "running") return (element.dataset.phase = model.get("phase"));
    element.dataset.phase = "running";
    element.dataset.updates = 0;
    [samples, marks] = [[], []];
    update();
  });
  model.on("msg:custom", ({ sample, mark }) => {
    const t = samples.at(-1)?.t;
    if (mark && t !== undefined) marks = [...marks.filter(({ x }) => t - x > 0.5), { x: t, label: mark }];
    if (!sample) return;
    samples = [...samples.filter((each) => each.t > sample.t - STRIP_S - 1), sample];
    element.dataset.updates = Number(element.dataset.updates ?? 0) + 1;
    update();
  });
}

// ---- the stepper -----------------------------------------------------------------------------

const ACTORS = { call: "application", segment: "segment leaves", ack: "ACK arrives", reply: "reply arrives", timer: "timer" };

/** The model's events one by one, beside the kernel's. */
function stepper(element, model) {
  let now = 0, length = -1;
  const [back, next, where] = [make("button", {}, "◀ Back"), make("button", { class: "next" }, "Next ▶"), make("span", { role: "status" })];
  const list = (label) => make("ol", { tabindex: 0, "aria-label": label });
  const [ours, kernels] = [list("The model, event by event"), list("The kernel's segments")];
  const [why, inside] = [make("p", { class: "why", "aria-live": "polite" }), make("dl")];
  element.append(
    make("div", { class: "stepping" }, back, next, where), why, inside,
    make("div", { class: "lists" }, make("h4", {}, "The model"), make("h4", {}, "This kernel"), ours, kernels),
  );
  const row = (event, isCurrent) => make("li", { class: event.kind, ...(isCurrent ? { "aria-current": "step" } : {}) },
    make("span", {}, `${event.time_ms.toFixed(2)} ms`), `${ACTORS[event.kind]}: ${event.text}`);
  const show = (by = 0) => {
    const { model: events, kernel } = model.get("data");
    if (events.length !== length) [now, length] = [0, events.length];
    now = Math.min(Math.max(now + by, 0), length);
    const current = events[now - 1];
    [back.disabled, next.disabled] = [now === 0, now === length];
    where.textContent = `event ${now} of ${length}`;
    ours.replaceChildren(...events.slice(0, now).map((event) => row(event, event === current)));
    kernels.replaceChildren(...(kernel?.map((event, index) => row(event, current?.match === index))
      ?? [make("li", { class: "hint" }, "Press Run to send the same writes through this kernel.")]));
    why.textContent = current?.why ?? "The application has made no call yet. Press Next, or the right arrow key.";
    inside.replaceChildren(...Object.entries(current?.state ?? {}).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
    for (const marked of element.querySelectorAll("[aria-current]")) marked.scrollIntoView({ block: "nearest" });
  };
  back.addEventListener("click", () => show(-1));
  next.addEventListener("click", () => show(1));
  element.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    show(by);
    event.preventDefault();
  });
  model.on("change:data", () => show());
  show();
}

// ---- the panel around it ---------------------------------------------------------------------

/** Names and roles that ipywidgets does not give; a slider speaks its value, not its place. */
function name(root) {
  const label = (field) => field?.querySelector(".widget-label")?.textContent;
  const roles = {
    ".tcplab-status .widget-html-content": "status", ".tcplab-bad .widget-html-content": "alert",
    ".tcplab-table .widget-html-content": "region", ".progress": "progressbar", ".widget-radio-box": "radiogroup",
  };
  for (const [selector, role] of Object.entries(roles)) for (const each of root.querySelectorAll(selector)) each.role = role;
  for (const bar of root.querySelectorAll(".progress")) bar.ariaLabel = "Progress";
  for (const table of root.querySelectorAll("[role=region]")) filled(table, { tabindex: 0, "aria-label": "Numbers of the run" }, []);
  for (const handle of root.querySelectorAll(".noUi-handle")) {
    handle.ariaLabel = `${label(handle.closest(".tcplab-number"))}, slider`;
    handle.ariaValueText = handle.closest(".widget-slider").querySelector(".widget-readout").textContent;
  }
  for (const group of root.querySelectorAll(".widget-radio-box")) {
    group.ariaLabel = label(group.closest(".widget-radio"));
    for (const radio of group.querySelectorAll("input")) radio.name = `${root.id}-${group.ariaLabel}`; // arrow keys
  }
}

async function copy(button) {
  const code = button.nextElementSibling;
  getSelection().selectAllChildren(code);
  await navigator.clipboard.writeText(code.textContent).catch(() => document.execCommand("copy")); // not over https
  button.textContent = "Copied";
}

/** Hands a file to the browser as a download. */
function save(name, data) {
  const url = URL.createObjectURL(new Blob([data]));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function attend(root, model) {
  root.id = `tcplab-${Math.random().toString(36).slice(2)}`;
  filled(root, { role: "region", "aria-label": model.get("title"), "data-lm-suppress-shortcuts": "true" }, []);
  // Lab's own keys (arrows move between cells) must not reach through the panel.
  root.addEventListener("keydown", (event) => event.stopPropagation());
  root.addEventListener("click", ({ target }) => {
    if (target.closest(".tcplab-copy")) copy(target);
    if (target.closest(".tcplab-full")) document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen();
  });
  // The pointer or the focus starts the worker, so that Run finds it ready.
  for (const event of ["pointerenter", "focusin"]) root.addEventListener(event, () => model.send("warm"), { once: true });
  new MutationObserver(() => name(root)).observe(root, { childList: true, subtree: true, attributeFilter: ["aria-valuenow"] });
  name(root);
  const state = () => Object.assign(root.dataset, { phase: model.get("phase"), run: model.get("number") });
  model.on("change:phase change:number", state);
  state();
  return listen(root, model);
}

/**
 * Says within two seconds that the kernel has gone. JupyterLab knows of a restart and a lost connection; a killed
 * kernel says nothing more, so it is asked while it should be at work. One that answers again goes on.
 */
function listen(root, model) {
  const kernel = model.widget_manager?.kernel, word = make("p", { class: "tcplab-lost", role: "alert" });
  let asked = null, isOver = false;
  root.querySelector(".tcplab-status").before(word);
  const show = (why) => {
    if (isOver || word.textContent === why) return;
    word.textContent = why;
    root.dataset.phase = why ? "lost" : model.get("phase");
  };
  const over = (why) => {
    show(why);
    isOver = true;
    for (const button of root.querySelectorAll(".tcplab-actions button")) button.disabled = true;
  };
  const hear = () => {
    if (["dead", "restarting", "autorestarting", "terminating"].includes(kernel.status)) over("The kernel has ended or was restarted. Run this cell again.");
    else if (kernel.connectionStatus !== "connected") show("Not connected to the kernel. JupyterLab tries again.");
    else if (!asked) show("");
  };
  const ask = () => {
    asked ??= performance.now();
    model.send("ping");
  };
  for (const signal of [kernel?.statusChanged, kernel?.connectionStatusChanged]) signal?.connect(hear);
  const pulse = setInterval(() => {
    if (performance.now() - (asked ?? Infinity) > LOST_MS) show(`The kernel does not answer${kernel?.status === "busy" ? ", another cell may keep it busy" : ""}. If it has ended, run this cell again.`);
    if (asked || ["running", "stopping"].includes(model.get("phase"))) ask();
  }, ASK_MS);
  root.addEventListener("click", ({ target }) => {
    const button = target.closest(".tcplab-actions button");
    if (!button) return;
    if (word.textContent && button.matches(":last-child")) over("Stopped here. Run this cell again.");
    else ask();
  });
  model.on("comm_live_update", () => over("The kernel was restarted. Run this cell again."));
  model.on("msg:custom", (message, buffers) => {
    if (message.alive) show((asked = null) ?? "");
    if (message.save) save(message.save, buffers[0]);
  });
  return () => {
    clearInterval(pulse);
    for (const signal of [kernel?.statusChanged, kernel?.connectionStatusChanged]) signal?.disconnect(hear);
  };
}

const DRAW = { chart, strip: strips, stepper };

export default {
  render({ model, el }) {
    el.classList.add(`tcplab-${model.get("kind")}`);
    DRAW[model.get("kind")]?.(el, model);
    let leave = () => {};
    const watcher = new ResizeObserver(() => {
      const root = el.closest(".tcplab-panel");
      if (!root) return;
      watcher.disconnect();
      leave = attend(root, model);
    });
    watcher.observe(el);
    return () => leave();
  },
};
