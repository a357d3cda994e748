import { expect, it } from 'vitest';
import { resolveOptions } from './options.ts';
import { testOptions } from './test-options.ts';

it('testOptions survive a spread, and each overrides its own option only', () => {
  const options = { name: 'w', ...testOptions({ fastPaths: false, alwaysReplay: true }) };
  expect(Object.keys(options)).toEqual(['name']);
  const later = { ...options, ...testOptions({ fastPaths: true }) };
  expect(resolveOptions(options, 'b')).toMatchObject({ fastPaths: false, alwaysReplay: true });
  expect(resolveOptions(later, 'b')).toMatchObject({ fastPaths: true, alwaysReplay: true });
  expect(resolveOptions({}, 'b')).toMatchObject({ fastPaths: true, alwaysReplay: false });
});

it('the test option host replaces the processes of /proc', () => {
  const host = { hostId: 'h', self: { pid: 1, startTime: '1' }, hasDied: () => false };
  expect(resolveOptions({ ...testOptions({ host }) }, 'b').host).toBe(host);
  expect(resolveOptions({ ...testOptions({ host: null }) }, 'b').host).toBeNull();
  expect(resolveOptions({}, 'b').host).toBeUndefined();
});
