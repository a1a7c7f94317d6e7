// Says in words why a passkey was not added or used; allauth's scripts only write it to the console.
document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  const { name, message } = event.detail.exception;
  const sentences = {
    NotAllowedError: "The browser has stopped: it was cancelled, took too long, or found no passkey. Try again.",
    InvalidStateError: "This device has a passkey for your account already.",
    SecurityError: "Passkeys need https and a host name. Open the portal by its name.",
    NotSupportedError: "This browser or this device supports no passkeys.",
  };
  const problem = document.querySelector("[data-passkey-problem]");
  problem.hidden = false;
  problem.querySelector("span").textContent = sentences[name] || `It did not work: ${message}`;
});
