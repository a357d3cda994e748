/** The values of a path's parameters, by name. */
export type PathParams = Readonly<Record<string, string>>;

/**
 * Writes the path of a route. Ids may be any text, but URLs swallow the segments `.` and `..`: those, and ids that
 * begin with a tilde, get a tilde in front.
 */
export function writePath(path: string, params: PathParams = {}): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => writeSegment(params[name] ?? ''));
}

/** Reads the parameters of a path that fits a route; `undefined` where it does not fit or is not well encoded. */
export function readPath(pattern: string, path: string): PathParams | undefined {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const text = given[index] ?? '';
    if (!segment.startsWith('{')) {
      if (segment !== text) return undefined;
      continue;
    }
    const value = readSegment(text);
    if (value === undefined || value === '') return undefined;
    params[segment.slice(1, -1)] = value;
  }
  return params;
}

function writeSegment(value: string): string {
  const escaped = value === '.' || value === '..' || value.startsWith('~') ? `~${value}` : value;
  return encodeURIComponent(escaped);
}

function readSegment(text: string): string | undefined {
  try {
    const value = decodeURIComponent(text);
    return value.startsWith('~') ? value.slice(1) : value;
  } catch {
    return undefined;
  }
}
