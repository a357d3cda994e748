import { defineConfig } from 'vite';

// Builds the browser program of the dashboard into static files of the package.
export default defineConfig({
  root: `${import.meta.dirname}/app`,
  // Relative addresses: the server sets the base of the page, so that it works below any prefix.
  base: './',
  publicDir: false,
  // preact/hooks and @preact/signals share one instance of preact.
  resolve: { dedupe: ['preact'] },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../../dist/dashboard/static',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: 'manifest.json',
    reportCompressedSize: false,
  },
  logLevel: 'warn',
});
