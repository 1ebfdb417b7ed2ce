// The part of a panel that ipywidgets lacks. It names widgets and gives them roles where ipywidgets gives none,
// says that the kernel has gone, and does what only a page can do, such as copy, save and fill the screen.
//
// The traits are those of tcplab.widgets.view.Page. Messages to the kernel are "warm" and "ping", those
// from it {save} and {alive}.

const ASK_MS = 400, LOST_MS = 1200;

/** An element with attributes and children; a string child is text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

/** Names and roles that ipywidgets does not give; a slider speaks its value, not its place. */
function name(root) {
  root.id ||= `tcplab-${Math.random().toString(36).slice(2)}`;
  const label = (field) => field?.querySelector(".widget-label")?.textContent;
  const roles = {
    ".tcplab-status .widget-html-content": "status", ".tcplab-bad .widget-html-content": "alert",
    ".tcplab-table .widget-html-content": "group", ".progress": "progressbar", ".widget-radio-box": "radiogroup",
  };
  for (const [selector, role] of Object.entries(roles)) for (const each of root.querySelectorAll(selector)) each.role = role;
  for (const bar of root.querySelectorAll(".progress")) bar.ariaLabel = "Progress";
  for (const table of root.querySelectorAll(".tcplab-table [role=group]")) set(table, { tabindex: 0, "aria-label": "Numbers of the run" });
  for (const handle of root.querySelectorAll(".noUi-handle")) {
    const slider = handle.closest(".widget-slider");
    handle.ariaLabel = `${label(handle.closest(".tcplab-number") ?? slider)}, slider`;
    handle.ariaValueText = slider.querySelector(".widget-readout").textContent;
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

/** Makes a demo as large as the window is, compared with a projector of 1280 x 720 or, on a 4:3 wall, 960 x 720. */
function fill(demo) {
  const stacked = innerWidth / innerHeight < 1.5;
  demo.toggleAttribute("data-stacked", stacked);
  demo.style.setProperty("--scale", Math.max(1, Math.min(innerWidth / (stacked ? 960 : 1280), innerHeight / 720)));
}

/** Hands a file to the browser as a download. */
function save(name, data) {
  const url = URL.createObjectURL(new Blob([data]));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function attend(root, model) {
  set(root, { role: "region", "aria-label": model.get("title") });
  for (const note of document.getElementsByClassName(model.get("note"))) note.hidden = true;
  root.addEventListener("click", ({ target }) => {
    if (target.closest(".tcplab-copy")) copy(target);
    if (target.closest(".tcplab-full")) document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen();
  });
  // The pointer or the focus starts the worker, so that Run finds it ready.
  for (const event of ["pointerenter", "focusin"]) root.addEventListener(event, () => model.send("warm"), { once: true });
  const scale = () => root.matches(".tcplab-demo") && fill(root);
  addEventListener("resize", scale);
  scale();
  const state = () => Object.assign(root.dataset, { phase: model.get("phase"), run: model.get("number") });
  model.on("change:phase change:number", state);
  state();
  const leave = listen(root, model);
  return () => {
    leave();
    removeEventListener("resize", scale);
  };
}

/**
 * Says within two seconds that the kernel has gone. The page knows of a restart and a lost connection; a killed
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
    if (["dead", "restarting", "autorestarting", "terminating"].includes(kernel.status)) over("The kernel has ended or was restarted. Run the cell above again.");
    else if (kernel.connectionStatus !== "connected") show("Not connected to the kernel. The connection is tried again.");
    else if (!asked) show("");
  };
  const ask = () => {
    asked ??= performance.now();
    model.send("ping");
  };
  for (const signal of [kernel?.statusChanged, kernel?.connectionStatusChanged]) signal?.connect(hear);
  const pulse = setInterval(() => {
    if (performance.now() - (asked ?? Infinity) > LOST_MS) show(`The kernel does not answer${kernel?.status === "busy" ? ", another cell may keep it busy" : ""}. If it has ended, run the cell above again.`);
    if (asked || ["running", "stopping"].includes(model.get("phase"))) ask();
  }, ASK_MS);
  root.addEventListener("click", ({ target }) => {
    const button = target.closest(".tcplab-actions button");
    if (!button) return;
    if (word.textContent && button.matches(":last-child")) over("Stopped here. Run the cell above again.");
    else ask();
  });
  model.on("comm_live_update", () => over("The kernel was restarted. Run the cell above again."));
  model.on("msg:custom", (message, buffers) => {
    if (message.alive) show((asked = null) ?? "");
    if (message.save) save(message.save, buffers[0]);
  });
  return () => {
    clearInterval(pulse);
    for (const signal of [kernel?.statusChanged, kernel?.connectionStatusChanged]) signal?.disconnect(hear);
  };
}

export default {
  render({ model, el }) {
    el.classList.add("tcplab-page");
    let leave = () => {};
    const watcher = new ResizeObserver(() => {
      const root = el.closest(".tcplab-panel");
      if (!root) return;
      watcher.disconnect();
      name(root);
      // Keys belong to what has the focus. Jupyter's shortcuts look for this mark from there upwards, and some stop
      // at the very first element; Notebook 7 looks before the element itself has seen the key.
      root.addEventListener("focusin", ({ target }) => set(target, { "data-lm-suppress-shortcuts": "true" }));
      new MutationObserver(() => name(root)).observe(root, { childList: true, subtree: true, attributeFilter: ["aria-valuenow"] });
      if (root.matches(".tcplab-panel")) leave = attend(root, model);
    });
    watcher.observe(el);
    return () => leave();
  },
};
