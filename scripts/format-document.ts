import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, type FormatOptions } from 'oxfmt';

const root = join(import.meta.dirname, '..');
const { singleQuote, printWidth, trailingComma } = JSON.parse(
  readFileSync(join(root, '.oxfmtrc.json'), 'utf8'),
) as Required<FormatOptions>;

/** Formats a generated Markdown document as `npm run format` does. */
export async function formatDocument(text: string): Promise<string> {
  const options = { singleQuote, printWidth, trailingComma };
  const { code, errors } = await format('document.md', text, options);
  if (errors.length > 0)
    throw new Error(`Formatting failed: ${errors.map(({ message }) => message).join('; ')}`);
  return code;
}
