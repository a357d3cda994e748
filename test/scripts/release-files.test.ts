import { expect, it } from 'vitest';
import { findReleaseProblems, prepareRelease } from '../../scripts/release-files.ts';

const files = {
  manifest: '{\n  "name": "perdure",\n  "version": "0.1.0"\n}\n',
  lock: '{\n  "name": "perdure",\n  "version": "0.1.0",\n  "packages": {\n    "": {\n      "version": "0.1.0"\n    },\n    "node_modules/pg": {\n      "version": "8.0.0"\n    }\n  }\n}\n',
  changelog: '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A feature.\n',
};
const release = { version: '0.2.0', today: '2026-12-01' };

it('prepareRelease() sets the package version and no dependency version', () => {
  const { manifest, lock } = prepareRelease(files, release);
  expect(JSON.parse(manifest)).toMatchObject({ version: '0.2.0' });
  expect(JSON.parse(lock)).toMatchObject({
    version: '0.2.0',
    packages: { '': { version: '0.2.0' }, 'node_modules/pg': { version: '8.0.0' } },
  });
});

it('prepareRelease() moves unreleased changes under a dated heading', () => {
  const { changelog } = prepareRelease(files, release);
  expect(changelog).toContain('## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added');
});

it('findReleaseProblems() accepts a prepared release and reports an unprepared one', () => {
  expect(findReleaseProblems(prepareRelease(files, release), '0.2.0')).toEqual([]);
  expect(findReleaseProblems(files, '0.2.0')).toHaveLength(2);
});

it.each(['', '2', 'v0.2.0', '0.2'])(
  'prepareRelease() rejects the invalid version %j',
  (version) => {
    expect(() => prepareRelease(files, { ...release, version })).toThrow('Invalid version');
  },
);

it('prepareRelease() rejects a release without changes or with an existing version', () => {
  const released = prepareRelease(files, release);
  expect(() => prepareRelease(released, { ...release, version: '0.3.0' })).toThrow('no unreleased');
  const again = { ...released, changelog: `${released.changelog}\n## [Unreleased]\n\n- More.\n` };
  const mixed = {
    ...again,
    changelog: again.changelog.replace('## [Unreleased]\n\n## [0.2.0]', '## [0.2.0]'),
  };
  expect(() => prepareRelease(mixed, release)).toThrow('already has version');
});
