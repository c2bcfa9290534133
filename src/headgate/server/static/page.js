"use strict";
// Keeps the page up to date. The server sends what has happened; the page then asks for its parts again, which
// the server renders. Nothing that comes from a model or a file is ever taken as HTML here.

(() => {
  const page = document.getElementById("content");
  const banner = document.getElementById("lost");
  if (!page || !page.dataset.events) return;

  const REFRESH_MS = 500; // twice a second is as much as people can read
  const RETRY_MS = 1000;
  const task = page.dataset.task;
  const seen = new Map(); // the last HTML of each part, by id: what has not changed is left alone
  const folded = new Map(); // which details somebody has opened or closed, by id
  let stream = null;
  let retry = 0;
  let asked = false; // a refresh is due
  let busy = false; // a refresh is under way
  let answered = true; // the last refresh was answered well

  const timeline = () => document.getElementById("timeline");
  const position = () => document.getElementById("head")?.dataset.seq ?? "";

  // Refreshing: one request at a time, so that no line of the timeline can come twice.

  async function refresh() {
    const last = timeline()?.lastElementChild;
    const after = task ? (last?.dataset.seq ?? "0") : "";
    const where = task ? { target: "#timeline", swap: "beforeend" } : { target: "#content", swap: "none" };
    answered = true;
    try {
      await htmx.ajax("GET", page.dataset.parts + after, { source: page, ...where });
    } catch {
      answered = false;
    }
    const detail = last?.querySelector("details[open]");
    if (answered && detail) await fill(detail); // more may have happened since its line
    return answered;
  }

  async function soon() {
    asked = true;
    if (busy) return;
    busy = true;
    while (asked) {
      asked = false;
      if (!(await refresh())) {
        busy = false;
        return lose();
      }
      await new Promise((done) => setTimeout(done, REFRESH_MS));
    }
    busy = false;
  }

  async function fill(details) {
    const target = details.querySelector(".behind");
    try {
      await htmx.ajax("GET", details.dataset.part, { source: details, target, swap: "innerHTML" });
    } catch {
      // The banner says that the server does not answer.
    }
  }

  document.body.addEventListener("htmx:responseError", (event) => {
    const { xhr, elt } = event.detail;
    if (elt !== page) return;
    answered = false;
    // The task is gone, or the token is another one: the server has a page about it.
    if ([401, 404].includes(xhr.status)) location.reload();
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.body.addEventListener(name, (event) => {
      if (event.detail.elt === page) answered = false;
    });
  }

  // Swapping: unchanged parts are left alone, what was unfolded stays so, and htmx gives the focus back to the id
  // that had it.

  document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
    const part = event.detail.fragment.firstElementChild;
    if (!part?.id) return;
    event.detail.shouldSwap = seen.get(part.id) !== part.outerHTML;
    seen.set(part.id, part.outerHTML);
  });

  document.body.addEventListener("htmx:afterSettle", () => {
    for (const [id, open] of folded) {
      const details = document.getElementById(id);
      if (details && details.open !== open) details.open = open;
    }
    if (timeline()?.children.length) document.querySelector(".only-empty")?.remove();
  });

  document.addEventListener(
    "toggle",
    (event) => {
      const details = event.target;
      if (!details.id) return;
      folded.set(details.id, details.open);
      if (details.open && details.dataset.part && !details.querySelector(".entries")) fill(details);
    },
    true, // this event does not bubble
  );

  // Listening.

  function listen() {
    stream?.close();
    const after = task ? `after=${position()}` : "";
    stream = new EventSource(page.dataset.events + after);
    for (const name of ["milestone", "event", "queue"]) stream.addEventListener(name, (event) => hear(name, event));
    stream.addEventListener("activity", (event) => showActivity(JSON.parse(event.data)));
    stream.onerror = lose;
  }

  function hear(name, event) {
    if (name === "milestone" && !task) {
      const told = JSON.parse(event.data);
      const latest = document.getElementById("latest");
      if (latest?.dataset.task === told.task) latest.textContent = told.text;
    } else {
      soon();
    }
  }

  function showActivity(told) {
    const text = document.getElementById("activity");
    const lines = document.getElementById("lines");
    if (!text || text.dataset.task !== told.task || !told.text) return;
    text.textContent = told.text;
    if (lines) lines.textContent = told.lines.join("\n");
  }

  function lose() {
    stream?.close();
    stream = null;
    banner.hidden = false;
    clearTimeout(retry);
    retry = setTimeout(recover, RETRY_MS);
  }

  async function recover() {
    clearTimeout(retry);
    if (busy) {
      retry = setTimeout(recover, RETRY_MS);
      return;
    }
    busy = true;
    const back = await refresh();
    busy = false;
    if (!back) return lose();
    banner.hidden = true;
    listen();
  }

  // A browser has few connections to one server: a page that nobody looks at gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return recover();
    clearTimeout(retry);
    stream?.close();
    stream = null;
  });

  // Small comforts.

  setInterval(() => {
    const shown = document.querySelector("#now:not([hidden]) [data-elapsed]");
    if (!shown || !banner.hidden) return;
    const seconds = Number(shown.dataset.elapsed) + 1;
    shown.dataset.elapsed = seconds;
    shown.textContent = [Math.floor(seconds / 60), seconds % 60].map((n) => String(n).padStart(2, "0")).join(":");
  }, 1000);

  // Forms are sent from here, so that what was typed stays where it is if the server does not take it.

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post" || form.action.endsWith("/logout")) return;
    event.preventDefault();
    if (form.dataset.sending) return;
    form.dataset.sending = "1";
    const refusal = await send(form, event.submitter);
    delete form.dataset.sending;
    tell(form, refusal);
  });

  // Why the server did not take it; empty if it did.
  async function send(form, button) {
    let answer, body;
    try {
      answer = await fetch(button?.getAttribute("formaction") ?? form.action, {
        method: "POST",
        headers: { Accept: "application/json" },
        body: new URLSearchParams(new FormData(form, button)),
      });
      body = await answer.json();
    } catch {
      lose();
      return "The server does not answer. Your text is kept: send it again when the server is back.";
    }
    if (!answer.ok) return body.detail;
    form.reset();
    const next = new URL(body.go, location.href);
    if (next.pathname === location.pathname) soon();
    else location.assign(next);
    return "";
  }

  function tell(form, refusal) {
    const said = form.querySelector(".error") ?? document.createElement("p");
    said.className = "error";
    said.setAttribute("role", "alert");
    said.textContent = refusal;
    if (refusal) (form.querySelector("textarea") ?? form.lastElementChild).after(said);
    else said.remove();
  }

  // Keys.

  function step(by) {
    const all = [...document.querySelectorAll("a.row-line, a.row, .file > summary, .moment > details > summary")];
    const at = all.indexOf(document.activeElement);
    all.at(at < 0 ? (by > 0 ? 0 : -1) : Math.min(Math.max(at + by, 0), all.length - 1))?.focus();
  }

  document.addEventListener("keydown", (event) => {
    const field = event.target.closest?.("input, textarea, select");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      const form = field?.form;
      form?.requestSubmit(form.querySelector("button"));
    } else if (!field && !event.ctrlKey && !event.metaKey && !event.altKey) {
      if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
      else if (event.key === "/") search(event);
    }
  });

  function search(event) {
    const field = document.getElementById("q");
    event.preventDefault();
    if (field) field.focus();
    else location.assign("/#q");
  }

  document.getElementById("keys").hidden = false;
  if (location.hash === "#q") document.getElementById("q")?.focus();

  listen();
})();
