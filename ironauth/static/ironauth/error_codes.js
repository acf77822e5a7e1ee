// The `type` of a problem names its code behind the #: go on to the page of that code.
const goOn = () => {
  const page = document.getElementById(location.hash.slice(1))?.querySelector("h3 a");
  if (page) location.replace(page.href);
};
addEventListener("hashchange", goOn);
goOn();
