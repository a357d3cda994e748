/**
 * Orders versions by their numbers where they have some: '1.10' is above '1.9', '2' above '1.10', and a
 * pre-release ('2.0-beta') below its release. Different versions are never equal, so there is always one newest.
 */
export function compareVersions(a: string, b: string): number {
  const [releaseA, preReleaseA] = split(a);
  const [releaseB, preReleaseB] = split(b);
  return (
    compareParts(releaseA, releaseB) ||
    Number(preReleaseA === undefined) - Number(preReleaseB === undefined) ||
    compareParts(preReleaseA ?? '', preReleaseB ?? '') ||
    compareText(a, b)
  );
}

/** A dash after a number begins a pre-release, as in '2.0.0-beta.1'; in '2026-11-15' it separates numbers. */
function split(version: string): [release: string, preRelease: string | undefined] {
  const match = /^(.*?\d)-([^\d].*)$/.exec(version);
  return match === null ? [version, undefined] : [match[1] ?? '', match[2]];
}

function compareParts(a: string, b: string): number {
  const partsA = a.match(/\d+|\D+/g) ?? [];
  const partsB = b.match(/\d+|\D+/g) ?? [];
  for (const [index, partA] of partsA.entries()) {
    const partB = partsB[index];
    if (partB === undefined) return 1;
    const difference = comparePart(partA, partB);
    if (difference !== 0) return difference;
  }
  return partsA.length - partsB.length;
}

function comparePart(a: string, b: string): number {
  const numbers = /^\d/.test(a) && /^\d/.test(b);
  return numbers ? compareNumbers(a, b) : compareText(a, b);
}

// As text, because a number such as 20261115120000123 is too long for arithmetic.
function compareNumbers(a: string, b: string): number {
  const digitsA = a.replace(/^0+/, '');
  const digitsB = b.replace(/^0+/, '');
  return digitsA.length - digitsB.length || compareText(digitsA, digitsB);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
