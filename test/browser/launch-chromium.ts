import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { chromium, type Browser, type LaunchOptions } from 'playwright-core';

/**
 * Launches Chromium: the executable that `PERDURE_CHROMIUM` names, otherwise the one of the package
 * `@sparticuz/chromium` (Linux), unpacked once per version and user. The caller closes it.
 */
export async function launchChromium(options: LaunchOptions = {}): Promise<Browser> {
  const named = process.env['PERDURE_CHROMIUM'] ?? '';
  const { executablePath, env } =
    named === '' ? await bundledChromium() : { executablePath: named, env: {} };
  return await chromium.launch({
    executablePath,
    ...options,
    env: { ...process.env, ...env, ...options.env },
    // Tests may run as root, for which Chromium has no sandbox. Without hinting, text has the same width everywhere.
    args: ['--no-sandbox', '--font-render-hinting=none', ...(options.args ?? [])],
  });
}

/** The executable of the package and the environment that it needs. */
interface BundledChromium {
  readonly executablePath: string;
  readonly env: Readonly<Record<string, string>>;
}

async function bundledChromium(): Promise<BundledChromium> {
  if (process.platform !== 'linux') {
    throw new Error(
      '@sparticuz/chromium supports Linux only: name a Chromium in PERDURE_CHROMIUM.',
    );
  }
  const folder = join(tmpdir(), `perdure-chromium-${await version()}-${userId()}`);
  if (!existsSync(folder)) await unpackInto(folder);
  const { uid } = await stat(folder);
  if (uid !== userId()) {
    throw new Error(`${folder} belongs to another user: delete it, or set PERDURE_CHROMIUM.`);
  }
  return {
    executablePath: join(folder, 'chromium'),
    env: {
      // NSS and its dependencies, which small images lack.
      LD_LIBRARY_PATH: [join(folder, 'al2023', 'lib'), process.env['LD_LIBRARY_PATH'] ?? '']
        .filter((path) => path !== '')
        .join(':'),
      FONTCONFIG_PATH: join(folder, 'fonts'),
    },
  };
}

/**
 * Unpacks into a new folder and renames it, so a folder under the final name is always complete. Processes that unpack
 * at the same time do the work twice, and the first rename wins.
 */
async function unpackInto(folder: string): Promise<void> {
  const unpacked = await mkdtemp(`${folder}-unpacking-`);
  try {
    await runUnpackProgram(unpacked);
    await writeFile(join(unpacked, 'fonts', 'fonts.conf'), fontsConfiguration(folder));
    await rename(unpacked, folder);
  } catch (error) {
    await rm(unpacked, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

/** In another process, because the package writes to the folder for temporary files and changes its environment. */
async function runUnpackProgram(into: string): Promise<void> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'unpack-program.ts')], {
    env: { ...process.env, TMPDIR: into, AWS_LAMBDA_JS_RUNTIME: 'nodejs22.x' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  if (code !== 0) throw new Error(`Chromium was not unpacked into ${into}: exit code ${code}.`);
}

/** The configuration in the package names `/tmp/fonts`. */
function fontsConfiguration(folder: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>${join(folder, 'fonts')}</dir><cachedir>${join(folder, 'fonts-cache')}</cachedir></fontconfig>
`;
}

async function version(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve('@sparticuz/chromium');
  const manifest = await readFile(join(dirname(entry), '..', 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { readonly version: string }).version;
}

function userId(): number {
  return process.getuid?.() ?? 0;
}
