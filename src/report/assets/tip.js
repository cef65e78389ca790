// The box beside the pointer: rows of [name, value], null for a line between them.

function showTip(event, title, rows) {
  const tip = document.getElementById("tip");
  if (!rows) return void (tip.style.display = "none");
  tip.replaceChildren(make("b", { textContent: title }), ...rows.map((row) => row === null ? make("hr") :
    make("div", { className: "row" }, make("span", { textContent: row[0] }), make("span", { textContent: row[1] }))));
  tip.style.display = "block";
  const { offsetWidth, offsetHeight } = tip;
  const left = event.clientX + 16 + offsetWidth > innerWidth ? event.clientX - 16 - offsetWidth : event.clientX + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - offsetHeight - 6))}px`;
}
