import type { Call, Option } from './command.ts';

/** The options of a command that the audit records. */
export const auditOptions: readonly Option[] = [
  { name: 'reason', value: 'text', summary: 'Why. Recorded in the audit' },
  {
    name: 'actor',
    value: 'text',
    summary: 'Who. Recorded in the audit (default: $PERDURE_ACTOR or the user)',
  },
];

/** Returns who does something, and why. There is always an actor: a stop without one is not recorded in the audit. */
export function readAudit({ options, terminal: { env } }: Call): {
  readonly reason: string | undefined;
  readonly actor: string;
} {
  const user = env['PERDURE_ACTOR'] || env['USER'] || env['LOGNAME'] || env['USERNAME'];
  return { reason: options.text('reason'), actor: options.text('actor') ?? (user || 'cli') };
}
