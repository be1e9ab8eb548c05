"use strict";
// Before the first paint: the reader's choice of light or dark, else what the system says.
{
  let kept = null;
  try {
    kept = localStorage.getItem("kvpm-theme");
  } catch {
    // Pages from a file may have no storage.
  }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  document.documentElement.classList.add("scripted");
}
