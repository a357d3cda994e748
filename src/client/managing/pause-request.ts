import { cleanReason } from '../../model/cancel.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { readFields } from '../../model/option-fields.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import type {
  DefinitionKind,
  PauseResult as InstancePauseResult,
  PausedDefinition,
} from '../../providers/contract/pausing.ts';
import { readActor, readFlag } from './stop-request.ts';

/** What to pause or resume: an instance by its id, or a definition by its name. */
export type PauseTarget =
  | string
  | {
      readonly name: string;
      /** Default: all kinds that have this name. */
      readonly kind?: DefinitionKind | undefined;
    };

/** Options of a pause. */
export interface PauseOptions {
  /** Why. Stored with the pause. Cut to 4,096 characters. */
  readonly reason?: string | undefined;
  /** Who requests it. Stored with the pause and in the audit log. */
  readonly actor?: string | undefined;
  /** Also pause all descendants of the instance. Default: false. */
  readonly tree?: boolean | undefined;
}

/** Options of a resume. */
export interface ResumeOptions {
  /** Why. */
  readonly reason?: string | undefined;
  /** Who requests it. Stored in the audit log. */
  readonly actor?: string | undefined;
  /** Also resume all descendants of the instance. Default: false. */
  readonly tree?: boolean | undefined;
}

/** The result of a pause or a resume. */
export interface PauseResult {
  /** Whether the instance exists. For a definition: whether the store has had work of it. */
  readonly found: boolean;
  /** Whether this call changed anything. Repeats do not. */
  readonly changed: boolean;
  /** The status of the instance; `null` for a definition and for an unknown instance. */
  readonly status: InstancePauseResult['status'];
  /** Whether it is paused now. */
  readonly paused: boolean;
}

/** A pause or resume, checked. */
export interface PauseCall {
  readonly target:
    | { readonly instanceId: string; readonly tree: boolean }
    | { readonly name: string; readonly kinds: readonly DefinitionKind[] };
  readonly reason: string | null;
  readonly actor: string | null;
}

/** The part of a client's backend that pauses and resumes. */
export interface PauseBackend {
  pause(call: PauseCall): Promise<PauseResult>;
  resume(call: PauseCall): Promise<PauseResult>;
  listDefinitions(): Promise<readonly PausedDefinition[]>;
}

const kinds: readonly DefinitionKind[] = ['orchestration', 'activity', 'task'];

/** Checks the arguments of a pause or a resume. */
export function readPause(
  target: unknown,
  options: unknown,
  where: 'pause()' | 'resume()',
): PauseCall {
  const given = readFields(options, where, ['reason', 'actor', 'tree'] as const);
  const tree = readFlag('tree', given.tree);
  const reason = given.reason === undefined ? null : cleanReason(given.reason);
  const call = { reason, actor: readActor(given.actor) };
  if (typeof target !== 'object' || target === null) {
    return { ...call, target: { instanceId: checkInstanceId(target), tree } };
  }
  if (tree) {
    throw new PerdureError(
      'INVALID_INPUT',
      `Invalid \`tree\` in ${where}: it applies to an instance, not to a definition.`,
    );
  }
  // A definition also fits, and has more fields. Without a `kind`, a misspelled one would select all kinds.
  const isKindGiven = (target as { readonly kind?: unknown }).kind !== undefined;
  const { name, kind } = isKindGiven
    ? (target as { readonly name?: unknown; readonly kind?: unknown })
    : readFields(target, `the target of ${where}`, ['name', 'kind'] as const);
  return { ...call, target: { name: checkName(name, 'Name'), kinds: readKinds(kind, where) } };
}

function readKinds(kind: unknown, where: string): readonly DefinitionKind[] {
  if (kind === undefined) return kinds;
  const known = kinds.find((one) => one === kind);
  if (known !== undefined) return [known];
  throw new PerdureError(
    'INVALID_INPUT',
    `Invalid \`kind\` ${JSON.stringify(kind) ?? 'undefined'} in ${where}: must be 'orchestration', 'activity' or 'task'.`,
  );
}
