import { deflateSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { toPalettePng } from '../../scripts/palette-png.ts';
import { launchChromium } from '../browser/launch-chromium.ts';

test('toPalettePng() keeps every pixel of an image of few colours', async () => {
  const browser = await launchChromium();
  onTestFinished(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 60, height: 40 } });
  const gradient = 'linear-gradient(90deg, #102030, #f0e0d0)';
  await page.setContent(`<body style="margin: 0; height: 40px; background: ${gradient}"></body>`);
  const original = await page.screenshot();
  const small = toPalettePng(original);
  const pixelsOf = (png: Buffer): Promise<string> =>
    page.evaluate(async (base64) => {
      const dom = globalThis as unknown as ImageDom;
      const image = new dom.Image();
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const canvas = new dom.OffscreenCanvas(60, 40).getContext('2d');
      canvas.drawImage(image, 0, 0);
      return [...canvas.getImageData(0, 0, 60, 40).data].join();
    }, png.toString('base64'));
  expect(await pixelsOf(small)).toBe(await pixelsOf(original));
});

test('toPalettePng() rejects an interlaced image', () => {
  const header = Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 1]);
  const chunk = (type: string, body: Buffer) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(body.length);
    return Buffer.concat([length, Buffer.from(type), body, Buffer.alloc(4)]);
  };
  const png = Buffer.concat([
    Buffer.alloc(8),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.alloc(4))),
  ]);
  expect(() => toPalettePng(png)).toThrow('Unsupported PNG');
});

interface ImageDom {
  readonly Image: new () => { src: string; decode(): Promise<void> };
  readonly OffscreenCanvas: new (
    width: number,
    height: number,
  ) => {
    getContext(kind: '2d'): {
      drawImage(image: unknown, x: number, y: number): void;
      getImageData(
        x: number,
        y: number,
        w: number,
        h: number,
      ): { readonly data: Uint8ClampedArray };
    };
  };
}
