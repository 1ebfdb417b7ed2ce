// The panel in the browser: native HTML controls on the left, the figure on the right.
//
// It mirrors the traits of tcplab.widgets.view.PanelView and decides nothing. Everything works by
// keyboard, every control has a label, and nothing is shown by colour alone.

const SVG = "http://www.w3.org/2000/svg";
const KEPT = 3;
const STRIP_SECONDS = 20;

// ---- small tools -----------------------------------------------------------------------------

/** An element with attributes and children; a string child is text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return filled(element, attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Three significant digits: 0.0255, 44, 1,230. */
function digits(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.0005) return value.toExponential(1);
  const rounded = Number(value.toPrecision(3));
  return rounded.toLocaleString("en", { maximumFractionDigits: 6, useGrouping: rounded >= 10000 });
}

const amount = (value, unit) => `${digits(value)}${unit ? ` ${unit}` : ""}`;

/** "Time per message" in lower case after a colon; "RTT" and "UDP's" stay as they are. */
const withinSentence = (words) => (/^[A-Z][a-z]/.test(words) ? words[0].toLowerCase() + words.slice(1) : words);

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** A function that calls `work` at most once per `ms`, after a delay of `ms`. */
function throttled(work, ms) {
  let timer = null;
  return () => {
    if (timer !== null) return;
    timer = setTimeout(() => {
      timer = null;
      work();
    }, ms);
  };
}

// ---- controls --------------------------------------------------------------------------------

/** Steps of a logarithmic slider; values become positions on it and back. */
const SLIDER_STEPS = 1000;

function toSlider(spec, value) {
  if (spec.scale !== "log") return value;
  return (SLIDER_STEPS * Math.log(value / spec.low)) / Math.log(spec.high / spec.low);
}

function fromSlider(spec, position) {
  if (spec.scale !== "log") return position;
  const value = spec.low * (spec.high / spec.low) ** (position / SLIDER_STEPS);
  const fine = spec.step * 10 ** Math.max(0, Math.floor(Math.log10(value / spec.step)) - 1);
  return clamp(Number((Math.round(value / fine) * fine).toPrecision(12)), spec.low, spec.high);
}

function problemWith(spec, text) {
  const value = Number(text);
  const unit = spec.unit ? ` ${spec.unit}` : "";
  const limits = `from ${spec.low} to ${spec.high}${unit}`;
  if (text.trim() === "" || !Number.isFinite(value) || value < spec.low || value > spec.high)
    return `${spec.label}: “${text}” must be a number ${limits}`;
  if (Number.isInteger(spec.step) && !Number.isInteger(value))
    return `${spec.label}: “${text}” must be a whole number ${limits}`;
  return "";
}

/** A control: its element, `show(value)`, and a call of `changed(name, value)` for each change. */
function makeControl(spec, id, changed, refused) {
  const label = make("label", { for: id, title: spec.help || null }, spec.unit ? `${spec.label} (${spec.unit})` : spec.label);
  if (spec.kind === "choice") {
    const options = spec.options.map(([value, words]) => make("option", { value }, words));
    const select = make("select", { id, name: spec.name }, ...options);
    select.addEventListener("change", () => changed(spec.name, select.value));
    return { element: make("div", { class: "field" }, label, select), show: (value) => (select.value = value) };
  }
  const log = spec.scale === "log";
  const box = make("input", {
    id, name: spec.name, type: "number", min: spec.low, max: spec.high, step: spec.step === 1 ? 1 : "any",
    "aria-describedby": `${id}-bad`,
  });
  const slider = make("input", {
    type: "range", name: `${spec.name}-slider`, "aria-label": `${spec.label}, slider`,
    min: log ? 0 : spec.low, max: log ? SLIDER_STEPS : spec.high, step: log ? "any" : spec.step,
  });
  let typed = null; // the exact value at this position of the slider: 65,536 stays that
  const bad = make("p", { class: "bad", id: `${id}-bad`, role: "alert" });
  const position = (value) => {
    slider.value = toSlider(spec, value);
    typed = { value, at: Number(slider.value) };
    slider.setAttribute("aria-valuetext", amount(value, spec.unit));
  };
  const judge = (words) => {
    bad.textContent = words;
    box.setAttribute("aria-invalid", words ? "true" : "false");
    refused(spec.name, words);
    return !words;
  };
  box.addEventListener("input", () => {
    if (!judge(problemWith(spec, box.value))) return;
    position(Number(box.value));
    changed(spec.name, Number(box.value));
  });
  const valueAt = (at) => (typed && Math.abs(at - typed.at) < 1e-3 ? typed.value : fromSlider(spec, at));
  const slide = (value) => {
    box.value = value;
    slider.setAttribute("aria-valuetext", amount(value, spec.unit));
    judge("");
    changed(spec.name, value);
  };
  slider.addEventListener("input", () => slide(valueAt(Number(slider.value))));
  const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5 };
  slider.addEventListener("keydown", (event) => {
    const by = keys[event.key];
    if (!log || !by) return;
    event.preventDefault();
    const before = Number(box.value);
    slider.value = Number(slider.value) + (by * SLIDER_STEPS) / 50;
    const value = valueAt(Number(slider.value));
    if (value !== before) return slide(value);
    // Among small whole numbers the next one is farther away than a step of the slider.
    position(clamp(before + Math.sign(by) * spec.step, spec.low, spec.high));
    slide(typed.value);
  });
  return {
    element: make("div", { class: "field" }, label, make("div", { class: "number" }, slider, box), bad),
    show: (value) => {
      if (box.value !== "" && Number(box.value) === value) return;
      box.value = value;
      position(value);
      judge("");
    },
  };
}

// ---- charts ----------------------------------------------------------------------------------

/** Position on an axis of `length` pixels, and its round values. */
function makeAxis({ low, high, scale }, length) {
  const log = scale === "log";
  const at = (value) =>
    length * (log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low || 1));
  const ticks = [];
  if (log) {
    const decades = Math.log10(high / low);
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const lead of decades > 3 ? [1] : [1, 2, 5]) {
        const value = lead * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
      }
  } else {
    const rough = (high - low) / 5;
    const unit = 10 ** Math.floor(Math.log10(rough || 1));
    const step = unit * ([1, 2, 5, 10].find((lead) => lead * unit >= rough) ?? 10);
    for (let value = Math.ceil(low / step) * step; value <= high * 1.0001; value += step) ticks.push(value);
  }
  return { at, ticks };
}

const short = (value) =>
  value >= 1e6 ? `${digits(value / 1e6)}M` : value >= 1e4 ? `${digits(value / 1e3)}k` : digits(value);

/** The runs' numbers as bars, with the prediction and the model's number as marks. */
function comparison(spec, runs, chosen, prediction, forecast, narrow) {
  const rows = runs.filter((run) => run.headline !== null);
  const marks = [];
  if (prediction !== null) marks.push({ value: prediction, words: "you", kind: "prediction" });
  if (forecast !== null && forecast !== undefined) marks.push({ value: forecast, words: "model", kind: "forecast" });
  const values = [...rows.map((run) => run.headline), ...marks.map((mark) => mark.value)].filter((value) => value > 0);
  const width = narrow ? 400 : 800, left = 64, right = 110, line = 26, top = narrow ? 22 : 42;
  const height = top + (narrow ? Math.max(1, rows.length) : KEPT) * line + 6;
  const words = [
    ...rows.map((run) => `run ${run.number}: ${amount(run.headline, spec.unit)}`),
    ...marks.map((mark) => `${mark.words === "you" ? "your prediction" : "the model"}: ${amount(mark.value, spec.unit)}`),
  ];
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "comparison", role: "img",
    "aria-label": `${spec.predicts}. ${words.join("; ") || "nothing measured yet"}`,
  });
  const high = Math.max(...values, 1e-9), low = Math.min(...values, high);
  const log = high / low > 20;
  const axis = log
    ? makeAxis({ low: low / 3, high: high * 1.15, scale: "log" }, width - left - right)
    : makeAxis({ low: 0, high: high * 1.1, scale: "linear" }, width - left - right);
  const heading = `${spec.predicts} (${spec.unit})${log ? ", logarithmic" : ""}`;
  if (!narrow) svg.append(draw("text", { x: 0, y: 15, class: "heading" }, heading));
  marks.sort((one, other) => one.value - other.value);
  const apart = marks.length === 2 && Math.abs(axis.at(marks[0].value) - axis.at(marks[1].value)) < 110;
  marks.forEach((mark, index) => {
    const x = left + (mark.value > 0 ? axis.at(mark.value) : 0);
    const text = `${mark.words} ${amount(mark.value, spec.unit)}`;
    const before = (apart && index === 0) || x + 11 * text.length > width;
    svg.append(
      draw("line", { x1: x, x2: x, y1: top - 20, y2: height, class: mark.kind }),
      draw("text", { x: before ? x - 5 : x + 5, y: top - 7, class: mark.kind, "text-anchor": before ? "end" : "start" }, text),
    );
  });
  rows.forEach((run, index) => {
    const y = top + index * line;
    const length = Math.max(axis.at(run.headline), 1);
    const words = amount(run.headline, spec.unit);
    let after = left + length + 6;
    // Keep a mark's line off the number.
    for (const mark of marks) {
      const x = left + (mark.value > 0 ? axis.at(mark.value) : 0);
      if (x > after - 4 && x < after + 9 * words.length) after = x + 6;
    }
    svg.append(
      draw("text", { x: 0, y: y + 17, class: run.number === chosen ? "chosen" : "" }, `run ${run.number}`),
      draw("rect", { x: left, y: y + 4, width: length, height: line - 8, class: `bar run${run.number % KEPT}` }),
      draw("text", { x: after, y: y + 17, class: run.number === chosen ? "chosen" : "" }, words),
    );
  });
  return narrow ? make("div", {}, make("p", { class: "what" }, heading), svg) : svg;
}

/** The model's curve, the runs' points over it, the prediction across. */
function chart(spec, curve, runs, prediction) {
  const width = 960, height = 540, left = 84, right = 24, top = 22, bottom = 62;
  // Room for the legend above the lines, for all runs.
  const room = curve.y.scale === "log" ? 1 : 1 + 0.05 * (curve.lines.length + KEPT - 2);
  const xs = makeAxis(curve.x, width - left - right), ys = makeAxis({ ...curve.y, high: curve.y.high * room }, height - top - bottom);
  const X = (value) => left + clamp(xs.at(value), 0, width - left - right);
  const Y = (value) => height - bottom - clamp(ys.at(value), 0, height - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": curve.alt });
  for (const value of xs.ticks)
    svg.append(
      draw("line", { x1: X(value), x2: X(value), y1: top, y2: height - bottom, class: "grid" }),
      draw("text", { x: X(value), y: height - bottom + 20, "text-anchor": "middle" }, short(value)),
    );
  for (const value of ys.ticks)
    svg.append(
      draw("line", { x1: left, x2: width - right, y1: Y(value), y2: Y(value), class: "grid" }),
      draw("text", { x: left - 8, y: Y(value) + 5, "text-anchor": "end" }, short(value)),
    );
  svg.append(
    draw("text", { x: (left + width) / 2, y: height - 12, "text-anchor": "middle", class: "heading" }, curve.x.label),
    draw("text", { transform: `translate(18 ${height / 2}) rotate(-90)`, "text-anchor": "middle", class: "heading" }, curve.y.label),
  );
  const path = (points) => points.map(([x, y], index) => `${index ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join("");
  for (const { points } of curve.lines) svg.append(draw("path", { d: path(points), class: "model" }));
  const legend = curve.lines.map(({ label }) => ["model", label]);
  for (const [index, mark] of (curve.marks ?? []).entries()) {
    const end = X(mark.x) > width / 2;
    svg.append(
      draw("line", { x1: X(mark.x), x2: X(mark.x), y1: top, y2: height - bottom, class: "knee" }),
      draw("text", { x: X(mark.x) + (end ? -6 : 6), y: height - bottom - 10 - 20 * index, "text-anchor": end ? "end" : "start", class: "knee" }, mark.label),
    );
  }
  for (const run of runs) {
    const kind = run.number % KEPT;
    svg.append(draw("path", { d: path(run.points), class: `line run${kind}` }));
    for (const [x, y] of run.points) svg.append(marker(kind, X(x), Y(y)));
    legend.push([`run${kind}`, `run ${run.number}: ${run.label}`]);
  }
  if (prediction !== null) {
    svg.append(
      draw("line", { x1: left, x2: width - right, y1: Y(prediction), y2: Y(prediction), class: "prediction" }),
      draw("text", { x: width - right, y: Y(prediction) - 6, "text-anchor": "end", class: "prediction" }, `you: ${amount(prediction, spec.unit)}`),
    );
  }
  legend.forEach(([kind, words], index) => {
    const y = top + 16 + index * 22;
    svg.append(
      draw("rect", { x: left + 8, y: y - 15, width: 40 + words.length * 7.6, height: 21, class: "legend" }),
      kind === "model" ? draw("path", { d: `M${left + 12} ${y - 5}h22`, class: "model" }) : marker(Number(kind.slice(3)), left + 23, y - 5),
      draw("text", { x: left + 40, y }, words),
    );
  });
  return svg;
}

/** Runs differ in the shape of their points, too. */
function marker(kind, x, y) {
  const shapes = [`M${x - 6} ${y - 6}h12v12h-12z`, `M${x} ${y - 8}l8 14h-16z`, `M${x - 6} ${y}a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z`];
  return draw("path", { d: shapes[kind], class: `marker run${kind}` });
}

/** A strip chart of the current readings on one canvas, so that the page is not laid out anew. */
function strips(lanes) {
  const canvas = make("canvas", { class: "strips", role: "img", "aria-label": `Strip chart of ${lanes.map((lane) => lane.label).join(", ")}` });
  const samples = [];
  const marks = [];
  let wanted = false;

  function paint() {
    wanted = false;
    const box = canvas.getBoundingClientRect();
    if (!box.width) return;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const style = getComputedStyle(canvas);
    const [ink, grid] = [style.color, style.getPropertyValue("--tcplab-grid") || "#8888"];
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, box.height);
    const end = Math.max(samples.at(-1)?.t ?? 0, STRIP_SECONDS);
    const left = 56, lane = box.height / lanes.length;
    const x = (t) => left + ((box.width - left - 8) * (t - end + STRIP_SECONDS)) / STRIP_SECONDS;
    lanes.forEach((each, index) => {
      const top = index * lane + 24, bottom = (index + 1) * lane - 6;
      const seen = samples.filter((sample) => sample.t >= end - STRIP_SECONDS);
      const highest = Math.max(each.top, ...seen.map((sample) => sample[each.key] ?? 0)) * 1.05;
      const y = (value) => bottom - ((bottom - top) * value) / highest;
      pen.lineWidth = 1;
      pen.strokeStyle = grid;
      pen.fillStyle = ink;
      pen.font = `13px ${style.fontFamily}`;
      for (const value of [0, highest / 1.05]) {
        pen.beginPath();
        pen.moveTo(left, y(value));
        pen.lineTo(box.width - 8, y(value));
        pen.stroke();
        pen.textAlign = "right";
        pen.fillText(short(value), left - 6, y(value) + 4);
      }
      pen.textAlign = "left";
      pen.font = `600 14px ${style.fontFamily}`;
      const latest = samples.at(-1)?.[each.key];
      pen.fillText(`${each.label}: ${digits(latest)}`, left, top - 8);
      pen.strokeStyle = grid;
      pen.setLineDash([4, 4]);
      for (const mark of marks.filter((one) => one.t >= end - STRIP_SECONDS)) {
        pen.beginPath();
        pen.moveTo(x(mark.t), top);
        pen.lineTo(x(mark.t), bottom);
        pen.stroke();
      }
      pen.setLineDash([]);
      pen.strokeStyle = style.getPropertyValue(`--tcplab-lane${index % 4}`) || ink;
      pen.lineWidth = 2;
      pen.beginPath();
      seen.forEach((sample, number) => pen[number ? "lineTo" : "moveTo"](x(sample.t), y(sample[each.key] ?? 0)));
      pen.stroke();
      if (index > 0) return;
      pen.font = `12px ${style.fontFamily}`;
      pen.strokeStyle = style.getPropertyValue("--paper");
      pen.lineWidth = 4;
      for (const mark of marks.filter((one) => one.t >= end - STRIP_SECONDS)) {
        pen.strokeText(mark.words, x(mark.t) + 3, bottom - 4);
        pen.fillText(mark.words, x(mark.t) + 3, bottom - 4);
      }
    });
  }

  function repaint() {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(paint);
  }
  const watcher = new ResizeObserver(repaint);
  watcher.observe(canvas);
  return {
    canvas,
    add(sample) {
      samples.push(sample);
      while (samples.length && samples[0].t < sample.t - 2 * STRIP_SECONDS) samples.shift();
      canvas.dataset.updates = Number(canvas.dataset.updates ?? 0) + 1;
      repaint();
    },
    mark(words) {
      if (!samples.length) return;
      const t = samples.at(-1).t;
      const last = marks.at(-1);
      if (last && t - last.t < 0.5) Object.assign(last, { words });
      else marks.push({ t, words });
    },
    clear() {
      samples.length = marks.length = 0;
      canvas.dataset.updates = 0;
      repaint();
    },
    end: () => watcher.disconnect(),
  };
}

// ---- the stepper -----------------------------------------------------------------------------

const ACTORS = { call: "application", segment: "segment leaves", ack: "ACK arrives", reply: "reply arrives", timer: "timer" };

/** The model's events one by one, beside the kernel's. */
function stepper() {
  let events = [], kernel = null, now = 0;
  const back = make("button", { type: "button" }, "◀ Back");
  const next = make("button", { type: "button", class: "next" }, "Next ▶");
  const where = make("span", { class: "where", role: "status" });
  const list = make("ol", { class: "events", tabindex: "0", "aria-label": "The model, event by event" });
  const real = make("ol", { class: "events", tabindex: "0", "aria-label": "The kernel's segments" });
  const inside = make("dl", { class: "inside" });
  const why = make("p", { class: "why", "aria-live": "polite" });
  const element = make("div", { class: "stepper" },
    make("div", { class: "stepping" }, back, next, where),
    make("div", { class: "inner" }, why, inside),
    make("div", { class: "lists" },
      make("div", {}, make("h4", { class: "column" }, "The model"), list),
      make("div", {}, make("h4", { class: "column" }, "This kernel"), real)));

  const row = (event, current) =>
    make("li", { class: `${event.kind}${current ? " current" : ""}`, "aria-current": current ? "step" : false },
      make("span", { class: "time" }, `${event.time_ms.toFixed(2)} ms`), make("span", {}, `${ACTORS[event.kind]}: ${event.text}`));

  function show() {
    now = clamp(now, 0, events.length);
    back.disabled = now === 0;
    next.disabled = now === events.length;
    where.textContent = `event ${now} of ${events.length}`;
    list.replaceChildren(...events.slice(0, now).map((event, index) => row(event, index === now - 1)));
    const current = events[now - 1];
    const match = current?.match ?? null;
    if (kernel === null) real.replaceChildren(make("li", { class: "hint" }, "Press Run to send the same writes through this kernel."));
    else real.replaceChildren(...kernel.map((event, index) => row(event, match === index)));
    for (const box of [list, real]) {
      const marked = box.querySelector(".current");
      if (marked) box.scrollTop = Math.max(0, marked.offsetTop - box.offsetTop - box.clientHeight / 2);
    }
    why.textContent = current ? current.why : "The application has made no call yet. Press Next, or the right arrow key.";
    inside.replaceChildren(...Object.entries(current?.state ?? {}).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
  }
  const go = (by) => {
    now += by;
    show();
  };
  back.addEventListener("click", () => go(-1));
  next.addEventListener("click", () => go(1));
  element.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") go(1);
    else if (event.key === "ArrowLeft") go(-1);
    else return;
    event.preventDefault();
  });
  return {
    element,
    update(model, measured) {
      const before = JSON.stringify(events);
      events = measured?.model ?? model ?? [];
      kernel = measured?.kernel ?? null;
      if (JSON.stringify(events) !== before && events.length !== JSON.parse(before).length) now = 0;
      show();
    },
  };
}

// ---- demos -----------------------------------------------------------------------------------

/** The prepared steps of a demo: the question to the room, its votes, and the result beside them. */
function makeDemo(steps, choose) {
  const votes = steps.map((step) => step.options.map(() => 0));
  let now = 0;
  const buttons = steps.map((step, index) => {
    const button = make("button", { type: "button" }, `${index + 1} · ${step.title}`);
    button.addEventListener("click", () => {
      now = index;
      choose(index);
    });
    return button;
  });
  const full = make("button", { type: "button", class: "full" }, "Full screen");
  full.addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else full.closest(".tcplab-panel").requestFullscreen();
  });
  const ask = make("p", { class: "ask" });
  const answer = make("p", { class: "answer", "aria-live": "polite" });
  const ballot = make("div", { class: "ballot", role: "group", "aria-label": "Votes of the room" });

  function nearest(step, measured) {
    const far = (option) => Math.abs(Math.log(Math.max(option.value, 1e-6) / Math.max(measured, 1e-6)));
    return step.options.reduce((best, option) => (far(option) < far(best) ? option : best), step.options[0]);
  }

  function show(run) {
    const step = steps[now];
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === now)));
    ask.textContent = step.ask;
    answer.textContent = run ? step.explain : "";
    const hit = run && run.headline !== null && step.options.length ? nearest(step, run.headline) : null;
    const share = (count) => `${(100 * count) / Math.max(1, ...votes[now])}%`;
    const size = () => ballot.querySelectorAll(".bar").forEach((bar, index) => (bar.style.width = share(votes[now][index])));
    ballot.replaceChildren(...step.options.map((option, index) => {
      const count = make("input", { type: "number", min: 0, max: 999, value: votes[now][index], "aria-label": `Votes for ${option.label}` });
      count.addEventListener("input", () => {
        votes[now][index] = Math.max(0, Number(count.value) || 0);
        size();
      });
      return make("div", { class: `vote${option === hit ? " hit" : ""}` },
        make("span", { class: "option" }, option === hit ? `✔ ${option.label}` : option.label), count,
        make("span", { class: "track" }, make("span", { class: "bar" })));
    }));
    size();
  }
  return {
    head: make("div", { class: "demo-head" }, make("div", { class: "steps", role: "group", "aria-label": "Steps" }, ...buttons, full), ask),
    ballot,
    answer,
    show,
    /** Whether a run has the settings of the chosen step. */
    fits: (run) => Object.entries(steps[now].settings).every(([name, value]) => run.values[name] === value),
  };
}

// ---- the panel -------------------------------------------------------------------------------

function render({ model, el }) {
  const spec = model.get("spec");
  // Each panel has its own copy of this module, so a counter would give all the same number.
  const id = `tcplab-${Math.random().toString(36).slice(2)}`;
  const refusals = {};
  let chosen = null;
  let clicked = null; // time of the click on Run, until its picture is there
  const pictures = []; // of the kept runs: number and url
  const waits = {}; // run's number -> seconds from the click to the picture, as seen in this page

  // Controls.
  const values = () => ({ ...model.get("values") });
  let pending = {};
  const send = throttled(() => {
    model.set("values", { ...values(), ...pending });
    pending = {};
    model.save_changes();
  }, 80);
  const changed = (name, value) => {
    pending[name] = value;
    if (spec.live && model.get("phase") === "running") {
      const { label, unit } = spec.controls.find((control) => control.name === name);
      strip?.mark(`${label} ${typeof value === "number" ? amount(value, unit) : value}`);
    }
    send();
  };
  const refused = (name, words) => {
    refusals[name] = words;
    buttons();
  };
  const run = make("button", { type: "submit", class: "run" }, "Run");
  const stop = make("button", { type: "button", class: "stop" }, "Stop");
  const controls = Object.fromEntries(spec.controls.map((each) => [each.name, makeControl(each, `${id}-${each.name}`, changed, refused)]));
  const guess = make("input", { id: `${id}-prediction`, name: "prediction", type: "number", min: 0, step: "any", placeholder: "skip" });
  guess.addEventListener("input", () => {
    const value = guess.value.trim() === "" ? null : Number(guess.value);
    if (value !== null && !(value >= 0)) return;
    model.set("prediction", value);
    model.save_changes();
    figure();
  });
  const progress = make("progress", { "aria-label": `Progress of ${spec.title}`, max: 1, value: 0 });
  const status = make("p", { class: "status", role: "status", "aria-live": "polite" });
  const fields = [
    ...Object.values(controls).map((control) => control.element),
    make("div", { class: "field guess" }, make("label", { for: `${id}-prediction` }, `Your prediction: ${withinSentence(spec.predicts)} (${spec.unit})`), guess),
  ];
  const buttonsAndState = [make("div", { class: "actions" }, run, stop), progress, status];
  const compare = make("div", { class: "compare" });
  const fold = make("details", {}, make("summary", {}, "Settings"), ...fields);
  const demo = model.get("steps").length
    ? makeDemo(model.get("steps"), (index) => {
        const step = model.get("steps")[index];
        model.set("values", { ...values(), ...step.settings });
        model.save_changes();
        // A step that was run before shows its result again.
        chosen = model.get("runs").findLast((each) => demo.fits(each))?.number ?? null;
        fold.open = spec.live && !step.options.length; // sliders to be moved meanwhile
        all();
      })
    : null;
  const form = make("form", { class: "controls", "aria-label": `Settings of ${spec.title}`, novalidate: true },
    ...(demo
      ? [demo.ballot, ...buttonsAndState, demo.answer, compare, fold]
      : [...fields, ...buttonsAndState]));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (run.disabled) return;
    model.set("values", { ...values(), ...pending });
    pending = {};
    model.save_changes();
    chosen = null;
    clicked = performance.now();
    strip?.clear();
    // A change of state may arrive after this message, so the message carries the values.
    model.send({ do: "run", values: model.get("values"), prediction: model.get("prediction") });
  });
  stop.addEventListener("click", () => model.send({ do: "stop" }));

  // Output.
  const strip = spec.figure === "strip" ? strips(spec.lanes) : null;
  const steps = spec.figure === "stepper" ? stepper() : null;
  const frame = make("div", { class: "frame" });
  const choice = make("div", { class: "choice", role: "radiogroup", "aria-label": "Which run is shown" });
  const table = make("div", { class: "table", role: "region", tabindex: "0", "aria-label": `Numbers of ${spec.title}` });
  const code = make("pre", { tabindex: "0" });
  const copy = make("button", { type: "button" }, "Copy");
  const origin = make("dl");
  const capture = make("button", { type: "button", class: "capture" }, "Save capture (.pcapng)");
  const tools = make("div", { class: "tools" },
    make("details", { class: "code" }, make("summary", {}, "Copy as code"), make("div", { class: "copying" }, copy, code)),
    capture,
    make("details", { class: "origin" }, make("summary", {}, "Where the numbers come from"), origin));
  const root = make("section", {
    class: `tcplab-panel${demo ? " demo" : ""}`, "aria-labelledby": `${id}-title`,
    // Lab's own keys (arrows move between cells) must not reach through the panel: its shortcuts
    // heed this mark, its notebook a keydown event that bubbles up to it.
    "data-lm-suppress-shortcuts": "true",
  },
    // A demo is a page of its own, a panel a part of a lesson.
    make(demo ? "h1" : "h3", { id: `${id}-title` }, spec.title), make("p", { class: "summary" }, spec.summary), demo?.head,
    make("div", { class: "body" }, form, make("div", { class: "output" }, choice, frame, demo ? null : compare, table, tools)));

  root.addEventListener("keydown", (event) => event.stopPropagation());
  copy.addEventListener("click", async () => {
    const selection = getSelection();
    selection.selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      document.execCommand("copy"); // a page that is not served over https
    }
    copy.textContent = "Copied";
  });
  copy.addEventListener("blur", () => (copy.textContent = "Copy"));
  capture.addEventListener("click", () => model.send({ do: "capture", number: shown().number }));

  const shown = () => {
    const runs = model.get("runs");
    return runs.find((each) => each.number === chosen) ?? runs.at(-1) ?? null;
  };
  const busy = () => ["running", "stopping"].includes(model.get("phase"));

  function buttons() {
    run.disabled = busy() || Object.values(refusals).some(Boolean);
    stop.disabled = model.get("phase") !== "running";
  }

  function state() {
    const phase = model.get("phase");
    root.dataset.phase = phase;
    root.dataset.run = model.get("runs").at(-1)?.number ?? 0;
    buttons();
    status.classList.toggle("failed", phase === "failed");
    status.textContent = phase === "failed" ? `Failed: ${model.get("message")}` : model.get("message");
    const share = model.get("progress");
    if (!busy()) progress.value = phase === "done" ? 1 : 0;
    else if (share === null) progress.removeAttribute("value");
    else progress.value = share;
  }

  function figure() {
    const now = shown();
    const { chart: curve, forecast, steps: events } = model.get("model");
    const prediction = model.get("prediction");
    if (strip) {
      const replay = !busy() && now;
      const wish = replay ? picture(now) : strip.canvas;
      if (frame.firstElementChild?.tagName !== wish.tagName || replay) frame.replaceChildren(wish);
    } else if (steps) {
      if (frame.firstElementChild !== steps.element) frame.replaceChildren(steps.element);
      steps.update(events, now?.steps && sameSettings(now) ? now.steps : null);
    } else if (curve) frame.replaceChildren(chart(spec, demo && !demoFits(now) ? hidden(curve) : curve, model.get("runs"), prediction));
    else if (now) {
      const old = frame.firstElementChild;
      if (old?.dataset.number !== String(now.number)) frame.replaceChildren(picture(now));
    } else frame.replaceChildren(make("p", { class: "empty" }, "The figure of the run stands here."));
    const last = now ?? { prediction: null, forecast: null };
    compare.replaceChildren(comparison(spec, model.get("runs"), now?.number, prediction ?? last.prediction, demo && !demoFits(now) ? null : now ? last.forecast : null, demo !== null));
  }

  // The room votes before it sees the model's line.
  const demoFits = (now) => now !== null && demo.fits(now);
  const hidden = (curve) => ({ ...curve, lines: [], marks: [], alt: `${curve.y.label} against ${curve.x.label}: empty until Run` });

  const sameSettings = (now) => Object.entries(model.get("values")).every(([name, value]) => now.values[name] === value);

  function picture(now) {
    const slot = now.number % KEPT;
    if (pictures[slot]?.number !== now.number) {
      if (pictures[slot]) URL.revokeObjectURL(pictures[slot].url);
      const file = new Blob([model.get(`picture_${slot}`)], { type: "image/png" });
      pictures[slot] = { number: now.number, url: URL.createObjectURL(file) };
    }
    return make("img", { src: pictures[slot].url, alt: now.alt, "data-number": now.number });
  }

  function choices() {
    const runs = model.get("runs");
    const current = shown()?.number;
    choice.replaceChildren(...runs.map((each) => {
      const radio = make("input", { type: "radio", name: `${id}-run`, value: each.number });
      radio.checked = each.number === current;
      radio.addEventListener("change", () => {
        chosen = each.number;
        all();
        choice.querySelector(":checked")?.focus();
      });
      const words = `Run ${each.number} · ${each.label}`;
      return make("label", { class: `run${each.number % KEPT}`, title: words }, radio, words);
    }));
  }

  function details() {
    const now = shown();
    tools.hidden = now === null;
    if (now === null) {
      table.replaceChildren(make("p", { class: "empty" }, "The numbers stand here."));
      return;
    }
    table.innerHTML = now.table; // our own table: tcplab.tables escapes what is in it
    code.textContent = now.code;
    capture.hidden = !spec.saves_capture;
    capture.disabled = !now.capture;
    capture.title = now.capture ? "For Wireshark" : "Nothing was recorded in this run";
    sources(now);
  }

  function sources(now) {
    const { experiment, drawing, picture } = now.seconds;
    const wait = waits[now.number] ?? picture;
    const time = `${digits(experiment)} s experiment + ${digits(wait - experiment)} s panel (${digits(drawing)} s of it drawing)`;
    const rows = Object.entries({ ...now.provenance, "click to picture": time });
    origin.replaceChildren(...rows.flatMap(([name, value]) => [
      make("dt", {}, name.replaceAll("_", " ")),
      make("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value)),
    ]));
  }

  function settings() {
    for (const [name, value] of Object.entries(model.get("values"))) if (!(name in pending)) controls[name]?.show(value);
    const prediction = model.get("prediction");
    if (document.activeElement !== guess) guess.value = prediction ?? "";
  }

  function all() {
    settings();
    state();
    choices();
    figure();
    details();
    demo?.show(shown() && demo.fits(shown()) ? shown() : null);
  }

  /** Measures the time until the new run's picture is on the screen. */
  async function timed() {
    const now = shown();
    if (clicked === null || now === null) return;
    const start = clicked;
    clicked = null;
    await frame.querySelector("img")?.decode().catch(() => {}); // one replaced meanwhile
    requestAnimationFrame(() => setTimeout(() => {
      waits[now.number] = (performance.now() - start) / 1000;
      root.dataset.seconds = JSON.stringify({ ...now.seconds, wait: waits[now.number] });
      if (shown() === now) sources(now);
    }));
  }

  const onMessage = (message, buffers) => {
    if (message.sample) strip?.add(message.sample);
    else if (message.refused) status.textContent = message.refused;
    else if (message.capture) save(message.capture, buffers[0]);
  };

  // The pointer or the focus starts the worker, so that Run finds it ready.
  const warm = () => {
    model.send({ do: "warm" });
    root.removeEventListener("pointerenter", warm);
    root.removeEventListener("focusin", warm);
  };
  root.addEventListener("pointerenter", warm);
  root.addEventListener("focusin", warm);

  const listeners = {
    "change:values": () => { settings(); },
    "change:prediction": () => { settings(); figure(); },
    "change:phase": () => { state(); figure(); },
    "change:message": state,
    "change:progress": state,
    "change:runs": () => { chosen = null; all(); timed(); },
    "change:model": figure,
    "msg:custom": onMessage,
  };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  el.append(root);
  all();
  if (demo) demo.head.querySelector("button").click();
  return () => {
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
    strip?.end();
    for (const { url } of Object.values(pictures)) URL.revokeObjectURL(url);
  };
}

/** Hands a file to the browser as a download. */
function save(name, data) {
  const url = URL.createObjectURL(new Blob([data], { type: "application/x-pcapng" }));
  const link = make("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export default { render };
