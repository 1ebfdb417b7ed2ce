// The service worker keeps what the book's pages load, and answers with it without a network. Browsers let it serve only its own folder,
// so tools/make-book copies this file to the book's root.

async function answer(event) {
  const kept = await caches.open("tcplab");
  try {
    const fetched = await fetch(event.request);
    if (fetched.ok) event.waitUntil(kept.put(event.request, fetched.clone()));
    return fetched;
  } catch (error) {
    return (await kept.match(event.request)) ?? Promise.reject(error);
  }
}

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(answer(event));
});
