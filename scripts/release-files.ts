/** The contents of the files that contain the version. */
export interface ReleaseFiles {
  readonly manifest: string;
  readonly lock: string;
  readonly changelog: string;
}

const unreleased = '## [Unreleased]';

/** Returns the files with the new version and its changelog. Throws for an invalid version or an empty changelog. */
export function prepareRelease(
  files: ReleaseFiles,
  { version, today }: { readonly version: string; readonly today: string },
): ReleaseFiles {
  if (!/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(version)) {
    throw new Error(`Invalid version ${JSON.stringify(version)}: use X.Y.Z.`);
  }
  if (changesOf(files.changelog, unreleased) === '') {
    throw new Error('CHANGELOG.md has no unreleased changes.');
  }
  const heading = `## [${version}] - ${today}`;
  if (files.changelog.includes(`## [${version}]`)) {
    throw new Error(`CHANGELOG.md already has version ${version}.`);
  }
  return {
    manifest: withVersion(files.manifest, version, 1),
    // The lock file contains the version twice: at the top and in its root package.
    lock: withVersion(files.lock, version, 2),
    changelog: files.changelog.replace(unreleased, `${unreleased}\n\n${heading}`),
  };
}

/** Returns why the files cannot be published as this version. */
export function findReleaseProblems(files: ReleaseFiles, version: string): readonly string[] {
  const { version: declared } = JSON.parse(files.manifest) as { readonly version: string };
  const heading = `## [${version}] - `;
  const isDated = files.changelog
    .split('\n')
    .some(
      (line) => line.startsWith(heading) && /^\d{4}-\d{2}-\d{2}$/.test(line.slice(heading.length)),
    );
  return [
    ...(declared === version ? [] : [`package.json has version ${declared}, the tag ${version}.`]),
    ...(isDated ? [] : [`CHANGELOG.md has no dated heading for ${version}.`]),
  ];
}

function changesOf(changelog: string, heading: string): string {
  const [, rest = ''] = changelog.split(heading);
  return (rest.split(/^## \[/m)[0] ?? '').trim();
}

function withVersion(json: string, version: string, times: number): string {
  let left = times;
  return json.replaceAll(/^(\s+"version": )"[^"]+"/gm, (line, key: string) => {
    left -= 1;
    return left >= 0 ? `${key}"${version}"` : line;
  });
}
