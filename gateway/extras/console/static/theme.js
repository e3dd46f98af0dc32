// Runs before the first paint, so that a chosen theme does not flash; hence no module.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off: the system's theme it is.
}
