import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { stripTypeScriptTypes } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** Serves a page that loads a module of this repository without bundling; only types are stripped. */
export async function startPageServer(modulePath: string): Promise<{
  readonly origin: string;
  close(): Promise<void>;
}> {
  const page = `<!doctype html><title>Perdure</title><script type="module" src="/${modulePath}"></script>`;
  const read = async (path: string): Promise<readonly [type: string, text: string]> => {
    if (path === '/') return ['text/html', page];
    if (!/^\/(?:src|test)\/[\w/-]+\.ts$/.test(path)) return ['text/plain', ''];
    return ['text/javascript', stripTypeScriptTypes(await readFile(join(root, path), 'utf8'))];
  };
  const server = createServer((request, response) => {
    read(request.url ?? '').then(
      ([type, text]) => response.writeHead(200, { 'content-type': type }).end(text),
      (error: unknown) => response.writeHead(404).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => void server.close(() => resolve()));
    },
  };
}
