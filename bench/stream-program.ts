/** Keeps event streams of watched instances open, as tabs of the dashboard do, until its parent exits. */
const [url = '', count = '0', ...ids] = process.argv.slice(2);

async function follow(): Promise<void> {
  const response = await fetch(new URL('v1/changes', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ ids }),
  });
  if (!response.ok || response.body === null) throw new Error(`Status ${response.status}.`);
  const reader = response.body.getReader();
  await reader.read();
  void (async () => {
    while (!(await reader.read()).done);
  })();
}

await Promise.all(Array.from({ length: Number(count) }, follow));
process.once('disconnect', () => process.exit());
process.send?.('ready');
