// The part of a panel that ipywidgets lacks. It gives widgets missing names and roles, reports that the kernel
// has ended, and does what only a page can do, such as copy, save and fill the screen.
//
// The traits are those of tcplab.widgets.view.Page. A message from the kernel, {save}, has a file to download.

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

/** Listen to a presenter's keys: Page Down and Page Up for the steps, and W for the explanation. */
function present(root) {
  const press = (event) => {
    const steps = [...root.querySelectorAll(".tcplab-steps input")];
    const by = { PageDown: 1, PageUp: -1 }[event.key];
    if (by) steps[steps.findIndex((step) => step.checked) + by]?.click();
    else if (event.key.toLowerCase() === "w" && !event.target.matches("textarea, [type=text]")) root.toggleAttribute("data-why");
    else return;
    event.preventDefault();
  };
  root.addEventListener("change", ({ target }) => target.matches(".tcplab-steps input") && root.removeAttribute("data-why"));
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

function attend(root, model) {
  set(root, { role: "region", "aria-label": model.get("title") });
  for (const note of document.getElementsByClassName(model.get("note"))) note.hidden = true;
  root.addEventListener("click", ({ target }) => {
    if (target.closest(".tcplab-copy")) copy(target);
    if (target.closest(".tcplab-why")) root.toggleAttribute("data-why");
    if (target.closest(".tcplab-full")) document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen();
  });
  const leaveKeys = root.matches(".tcplab-demo") ? present(root) : () => {};
  const scale = () => root.matches(".tcplab-demo") && fill(root);
  addEventListener("resize", scale);
  scale();
  const state = () => Object.assign(root.dataset, { phase: model.get("phase"), run: model.get("number") });
  model.on("change:phase change:number", state);
  state();
  const leave = listen(root, model);
  return () => {
    leave();
    leaveKeys();
    removeEventListener("resize", scale);
  };
}

/** Report that the kernel has ended or is out of reach. */
function listen(root, model) {
  const kernel = model.widget_manager?.kernel, word = make("p", { class: "tcplab-lost", role: "alert" });
  let isOver = false;
  root.querySelector(".tcplab-status").before(word);
  const show = (why) => {
    if (isOver) return;
    word.textContent = why;
    root.dataset.phase = why ? "lost" : model.get("phase");
  };
  const over = () => {
    show("The kernel has ended or was restarted. Run the cell above again.");
    isOver = true;
    for (const button of root.querySelectorAll(".tcplab-actions button")) button.disabled = true;
  };
  const hear = () => {
    if (["dead", "restarting", "autorestarting", "terminating"].includes(kernel.status)) over();
    else show(kernel.connectionStatus === "connected" ? "" : "Not connected to the kernel. The connection is tried again.");
  };
  for (const signal of [kernel?.statusChanged, kernel?.connectionStatusChanged]) signal?.connect(hear);
  model.on("comm_live_update", over);
  model.on("msg:custom", (message, buffers) => save(message.save, buffers[0]));
  return () => {
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
