// Keep what the book's pages load, for use without a network. It serves only its own folder, so tools/make-book copies it to the root.

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
