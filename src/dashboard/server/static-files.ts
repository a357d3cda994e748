import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { PerdureError } from '../../model/failures/errors.ts';

type Encoding = 'br' | 'gzip' | 'identity';

interface StaticFile {
  readonly type: string;
  readonly cacheControl: string;
  readonly etag: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Compressed on first use, then kept. */
  readonly compressed: Map<Encoding, Promise<Uint8Array<ArrayBuffer>>>;
}

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};
const isCompressible = /^(text|application)\/|svg/;
// A smaller file fits into the first packets anyway.
const minCompressedBytes = 1_024;
const page = 'index.html';

/** Returns the folder of the built dashboard: beside this module, or in `dist` if it runs from the sources. */
export function builtFolder(): string {
  const isSource = import.meta.url.endsWith('.ts');
  const path = isSource ? '../../../dist/dashboard/static' : '../static';
  return fileURLToPath(new URL(path, import.meta.url));
}

/**
 * The files of a built dashboard, read once. A request is looked up in their names, so that no path leads outside of the
 * folder. Throws `DASHBOARD_NOT_BUILT` without an `index.html`.
 */
export class StaticFiles {
  readonly #files = new Map<string, StaticFile>();
  readonly #page: StaticFile;

  constructor(folder: string, basePath: string) {
    if (!existsSync(join(folder, page))) {
      throw new PerdureError(
        'DASHBOARD_NOT_BUILT',
        `The files of the dashboard are missing: ${JSON.stringify(join(folder, page))} does not exist. Reinstall the package; in its repository, run \`npm run build\`.`,
      );
    }
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    for (const entry of entries) {
      const path = join(entry.parentPath, entry.name);
      const name = relative(folder, path).split(sep).join('/');
      if (!entry.isFile() || name === page || /(^|\/)\./.test(name)) continue;
      this.#files.set(name, toFile(name, toBytes(readFileSync(path))));
    }
    const html = withBase(readFileSync(join(folder, page), 'utf8'), basePath);
    this.#page = toFile(page, toBytes(Buffer.from(html)));
  }

  /** Responds with the page of the app. */
  respondWithPage(headers: Headers): Promise<Response> {
    return respond(this.#page, headers);
  }

  /** Responds with a file by its name below the folder. Returns `undefined` if there is none. */
  respondWithFile(name: string, headers: Headers): Promise<Response> | undefined {
    const file = this.#files.get(name);
    return file && respond(file, headers);
  }
}

function toBytes(buffer: Buffer): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer);
}

function toFile(name: string, bytes: Uint8Array<ArrayBuffer>): StaticFile {
  const isHashed = name.startsWith('assets/');
  return {
    type: types[extname(name).toLowerCase()] ?? 'application/octet-stream',
    cacheControl: isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
    etag: createHash('sha256').update(bytes).digest('base64url').slice(0, 27),
    bytes,
    compressed: new Map(),
  };
}

/** Sets the base URL of the page, from which its relative links are resolved. */
function withBase(html: string, basePath: string): string {
  const base = `<base href="${basePath}" />`;
  const without = html.replace(/<base\b[^>]*>/i, '');
  return without.replace(/<head\b[^>]*>/i, (head) => head + base);
}

async function respond(file: StaticFile, headers: Headers): Promise<Response> {
  const encoding = chooseEncoding(file, headers.get('accept-encoding') ?? '');
  // A strong tag names the exact bytes, so each encoding has its own.
  const etag = encoding === 'identity' ? `"${file.etag}"` : `"${file.etag}-${encoding}"`;
  const common = {
    etag,
    'cache-control': file.cacheControl,
    vary: 'accept-encoding',
  };
  if (matches(headers.get('if-none-match'), file.etag)) {
    return new Response(null, { status: 304, headers: common });
  }
  const bytes = await encode(file, encoding);
  return new Response(bytes, {
    headers: {
      ...common,
      'content-type': file.type,
      'content-length': String(bytes.byteLength),
      ...(encoding !== 'identity' && { 'content-encoding': encoding }),
    },
  });
}

/** Whether a condition names the content of a file, in any encoding. */
function matches(condition: string | null, tag: string): boolean {
  if (condition === null) return false;
  const given = condition.split(',').map((one) => one.trim().replace(/^W\//, ''));
  const known = [`"${tag}"`, `"${tag}-br"`, `"${tag}-gzip"`];
  return given.some((one) => one === '*' || known.includes(one));
}

function chooseEncoding({ type, bytes }: StaticFile, accepted: string): Encoding {
  if (!isCompressible.test(type) || bytes.byteLength < minCompressedBytes) return 'identity';
  const names = accepted
    .toLowerCase()
    .split(',')
    .map((one) => one.trim())
    .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
    .map((one) => one.replace(/\s*;.*$/, ''));
  if (names.includes('br')) return 'br';
  return names.includes('gzip') ? 'gzip' : 'identity';
}

// 9 takes ten times as long and saves 1 %.
const brotliQuality = 5;

const compressors = {
  br: (bytes: Uint8Array) =>
    promisify(brotliCompress)(bytes, {
      params: { [constants.BROTLI_PARAM_QUALITY]: brotliQuality },
    }),
  gzip: (bytes: Uint8Array) => promisify(gzip)(bytes, { level: 9 }),
};

function encode(file: StaticFile, encoding: Encoding): Promise<Uint8Array<ArrayBuffer>> {
  if (encoding === 'identity') return Promise.resolve(file.bytes);
  const known = file.compressed.get(encoding);
  if (known !== undefined) return known;
  const made = compressors[encoding](file.bytes).then(toBytes);
  file.compressed.set(encoding, made);
  return made;
}
