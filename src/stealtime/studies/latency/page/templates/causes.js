// The section on causes: choosing one cause everywhere, tooltips, the longest spikes as time lines and one of them large.

/** Show a text beside the pointer for whatever carries `data-tip`. */
function wireTooltips(root) {
  const tip = make("div", "tip");
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  for (const titled of root.querySelectorAll(".part[title]")) {
    titled.dataset.tip = titled.title;
    titled.removeAttribute("title"); // two tooltips would lie over each other
  }
  document.addEventListener("pointerover", (event) => {
    const subject = event.target.closest?.("[data-tip]");
    tip.hidden = !subject;
    if (!subject) return;
    // What is shown in a dialog lies over the page, and so must its tooltip.
    (subject.closest("dialog") ?? document.body).append(tip);
    tip.textContent = subject.dataset.tip;
    const box = subject.getBoundingClientRect();
    const left = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + tip.offsetHeight > window.innerHeight ? box.top - tip.offsetHeight - 6 : below}px`;
  });
}

class CauseSection {
  constructor(root) {
    this.root = root;
    this.status = document.getElementById("cause-status");
    this.dialog = document.getElementById("spike-dialog");
    this.chosen = null;
    this.shown = null; // {spikes, index} of the dialog
  }

  wire() {
    for (const button of this.root.querySelectorAll("[data-choose]")) {
      button.addEventListener("click", () => this.choose(button.dataset.choose));
    }
    for (const part of this.root.querySelectorAll(".part")) {
      part.addEventListener("click", () => this.choose(part.dataset.cause));
    }
    for (const cell of this.root.querySelectorAll("details.traced-cell")) {
      cell.addEventListener("toggle", () => this.drawCell(cell));
      this.drawCell(cell);
    }
    document.getElementById("spike-dialog-close").addEventListener("click", () => this.dialog.close());
    for (const button of this.dialog.querySelectorAll("[data-spike-step]")) {
      button.addEventListener("click", () => this.step(Number(button.dataset.spikeStep)));
    }
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close(); // a click beside it
    });
    wireTooltips(this.root);
    this.wirePrinting();
  }

  /** Paper has no tooltips: of every unfolded cell the table of its spikes is printed too. */
  wirePrinting() {
    let unfolded = [];
    window.addEventListener("beforeprint", () => {
      unfolded = [...this.root.querySelectorAll("details.traced-cell[open] details.spike-table:not([open])")];
      for (const table of unfolded) table.open = true;
    });
    window.addEventListener("afterprint", () => {
      for (const table of unfolded) table.open = false;
    });
  }

  /** Draw the spikes of a cell when it is opened; a report may hold a thousand. */
  async drawCell(cell) {
    const list = cell.querySelector("[data-spikes]");
    if (!cell.open || !list || list.dataset.isDrawn) return;
    list.dataset.isDrawn = "true";
    const packed = await inflate(document.getElementById(`${list.dataset.spikes}-spikes`).textContent);
    const spikes = JSON.parse(new TextDecoder().decode(packed));
    spikes.forEach((spike, index) => {
      const item = make("li");
      item.dataset.families = spike.families;
      item.append(spikeButton(spike, index + 1, () => this.open(spikes, index)));
      list.append(item);
    });
    this.dim();
  }

  /** Show only one cause; the same once more shows all again. */
  choose(family) {
    this.chosen = this.chosen === family ? null : family;
    for (const button of this.root.querySelectorAll("[data-choose]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choose === this.chosen));
    }
    this.dim();
  }

  dim() {
    const isOther = (families) => this.chosen !== null && !families.split(" ").includes(this.chosen);
    for (const marked of this.root.querySelectorAll("[data-cause]:not([data-choose])")) {
      marked.classList.toggle("dimmed", isOther(marked.dataset.cause));
    }
    const spikes = [...this.root.querySelectorAll("tr[data-families]")];
    for (const spike of [...spikes, ...this.root.querySelectorAll("li[data-families]")]) {
      spike.hidden = isOther(spike.dataset.families);
    }
    const words = this.root.querySelector(`[data-choose="${this.chosen}"]`)?.textContent.trim();
    const left = spikes.filter((spike) => !spike.hidden).length;
    this.status.textContent =
      this.chosen === null ? "" : `Only ${words}: in ${left} of the ${spikes.length} longest spikes. Press it again for all.`;
  }

  open(spikes, index) {
    this.shown = { spikes, index };
    const spike = spikes[index];
    document.getElementById("spike-dialog-title").textContent = spikeTitle(spike, index + 1);
    const note = make("p", "hint", "From the spike's start to its end. Grey: the probe ran, or nothing is known. Segments too short to be seen are drawn together.");
    document.getElementById("spike-dialog-figure").replaceChildren(drawSpike(spike, true), note);
    const columns = make("div", "cause-pair");
    columns.append(partsTable(spike), segmentsTable(spike));
    document.getElementById("spike-dialog-parts").replaceChildren(columns);
    if (!this.dialog.open) this.dialog.showModal();
  }

  step(by) {
    const { spikes, index } = this.shown;
    this.open(spikes, (index + by + spikes.length) % spikes.length);
  }
}

/** Open everything that a link into it points at; browsers do so only for what is searched. */
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part instanceof HTMLDetailsElement) part.open = true;
  target?.scrollIntoView();
}
