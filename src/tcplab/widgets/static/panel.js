// The part of a panel that ipywidgets lacks. It gives widgets missing names and roles, reports that the kernel
// has ended, and does what only a page can do, such as copy, save and fill the screen.
//
// The traits are those of tcplab.widgets.view.Page. Messages to the kernel are "warm" and "ping", and
// messages from it are {save} and {alive}.

const ASK_MS = 400, LOST_MS = 1200;

/** Return an element with attributes and children. A string child is text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

/** Set the names and roles that ipywidgets omits. A screen reader reads a slider's value, not its position. */
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
    for (const radio of group.querySelectorAll("input")) radio.name = `${root.id}-${group.ariaLabel}`; // the arrow keys need a name
  }
}

async function copy(button) {
  const code = button.nextElementSibling;
  getSelection().selectAllChildren(code);
  await navigator.clipboard.writeText(code.textContent).catch(() => document.execCommand("copy")); // the clipboard needs https
  button.textContent = "Copied";
}

/** Enlarge a demo to the window, from a projector's 1280 x 720 or, on a 4:3 screen, from 960 x 720. */
function fill(demo) {
  const stacked = innerWidth / innerHeight < 1.5;
  demo.toggleAttribute("data-stacked", stacked);
  demo.style.setProperty("--scale", Math.max(1, Math.min(innerWidth / (stacked ? 960 : 1280), innerHeight / 720)));
}

/** Download a file in the browser. */
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
  // Start the worker when the pointer or the focus enters, so that it is ready for Run.
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
 * Report within two seconds that the kernel has ended. The page is notified of a restart or a lost connection. A
 * killed kernel sends nothing, so ping a kernel that should be at work, and continue if it answers again.
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
      // Keys are for the focused element. Jupyter's shortcuts look for this mark on it and its ancestors, and some
      // only on the element itself. Notebook 7 looks before the element gets the key.
      root.addEventListener("focusin", ({ target }) => set(target, { "data-lm-suppress-shortcuts": "true" }));
      new MutationObserver(() => name(root)).observe(root, { childList: true, subtree: true, attributeFilter: ["aria-valuenow"] });
      if (root.matches(".tcplab-panel")) leave = attend(root, model);
    });
    watcher.observe(el);
    return () => leave();
  },
};
