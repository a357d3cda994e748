/** A part of a value, and whether the other side differs there. */
export interface Part {
  readonly text: string;
  readonly isDifferent: boolean;
}

/** One field of a command on both sides. */
export interface FieldRow {
  readonly field: string;
  readonly recorded: readonly Part[];
  readonly issued: readonly Part[];
  readonly isDifferent: boolean;
}

/** A command as far as it is known. An `input` is JSON text, or its beginning. */
export interface Command {
  readonly kind: string;
  readonly name?: string | undefined;
  readonly operation?: number | undefined;
  readonly input?: string | undefined;
}

/** Compares the fields that replay compares. A field that neither side has is left out. */
export function compareCommands(
  recorded: Command | undefined,
  issued: Command | undefined,
): readonly FieldRow[] {
  const rows: FieldRow[] = [];
  const add = (field: string, one: string | undefined, other: string | undefined): void => {
    if (one === undefined && other === undefined) return;
    const isDifferent = one !== other;
    const [left, right] =
      field === 'input' && one !== undefined && other !== undefined && isDifferent
        ? compareInputs(one, other)
        : [whole(one, isDifferent), whole(other, isDifferent)];
    rows.push({ field, recorded: left, issued: right, isDifferent });
  };
  add('kind', recorded?.kind, issued?.kind);
  add('name', recorded?.name, issued?.name);
  // The message of the worker has the input of calls and children only.
  if (recorded?.input !== undefined && issued?.input !== undefined) {
    add('input', recorded.input, issued.input);
  }
  add('place', recorded?.operation?.toString(), issued?.operation?.toString());
  return rows;
}

function whole(text: string | undefined, isDifferent: boolean): readonly Part[] {
  return [{ text: text ?? 'none', isDifferent }];
}

/** Marks the members that differ, if both are objects; else all of it. */
function compareInputs(one: string, other: string): readonly [readonly Part[], readonly Part[]] {
  const left = membersOf(one);
  const right = membersOf(other);
  if (left === undefined || right === undefined) return [whole(one, true), whole(other, true)];
  return [markMembers(left, new Set(right)), markMembers(right, new Set(left))];
}

function markMembers(members: readonly string[], others: ReadonlySet<string>): readonly Part[] {
  const parts: Part[] = [{ text: '{ ', isDifferent: false }];
  for (const [index, text] of members.entries()) {
    if (index > 0) parts.push({ text: ', ', isDifferent: false });
    parts.push({ text, isDifferent: !others.has(text) });
  }
  parts.push({ text: members.length === 0 ? '}' : ' }', isDifferent: false });
  return parts;
}

/** The members of an object as texts, so that numbers keep all their digits. Undefined if it is no whole object. */
export function membersOf(json: string): readonly string[] | undefined {
  const end = endOfValue(json, 0);
  if (!json.startsWith('{') || end !== json.length) return undefined;
  const members: string[] = [];
  let from = 1;
  let depth = 0;
  for (let at = 1; at < json.length; at += 1) {
    const char = json[at];
    if (char === '"') at = endOfString(json, at) - 1;
    else if (depth === 0 && (char === ',' || at === json.length - 1)) {
      const member = json.slice(from, at).trim();
      if (member !== '') members.push(member.replace(/^("(?:[^"\\]|\\.)*"):(?! )/, '$1: '));
      from = at + 1;
    } else if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') depth -= 1;
  }
  return members;
}

/**
 * The input that the code issued, from the message of the worker: the API has the name of the issued command, but not its
 * payload. Undefined if the message has none.
 */
export function issuedInput(reason: string): string | undefined {
  const issued = reason.split('but the code issued ')[1];
  const start = issued?.indexOf(' with input ') ?? -1;
  if (issued === undefined || start < 0) return undefined;
  const from = start + ' with input '.length;
  const end = endOfValue(issued, from);
  // A long input is clipped by the worker: take what there is.
  return end === undefined ? issued.slice(from).split('. Restore ')[0] : issued.slice(from, end);
}

/** Where the JSON value that begins at `from` ends. Undefined if it does not end. */
function endOfValue(text: string, from: number): number | undefined {
  const first = text[from];
  if (first === '"') {
    const end = endOfString(text, from);
    return end <= text.length && text[end - 1] === '"' && end > from + 1 ? end : undefined;
  }
  if (first !== '{' && first !== '[') {
    const scalar = /^(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/.exec(text.slice(from));
    return scalar === null ? undefined : from + scalar[0].length;
  }
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') at = endOfString(text, at) - 1;
    else if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return undefined;
}

/** The index after the quote that closes the string which begins at `from`, or after the text. */
function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return text.length + 1;
}
