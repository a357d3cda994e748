import { event } from 'perdure';
import { eq, exists, flow, type FlowDefinition, type StepContext } from 'perdure/flows';
import { reduceBatchSize, nameOf, optionalOf, type FlowSpec, type StepSpec } from './flow-spec.ts';

/** How a handler ends. */
export type HandlerOutcome = 'succeed' | 'fail' | 'early';

/** Blocks each attempt of each step and item until the test decides how it ends. */
export class Gates {
  readonly #waiting = new Map<string, (outcome: HandlerOutcome) => void>();

  static key(
    place: { readonly step: number; readonly item?: number | undefined },
    attempt: number,
  ) {
    return `${place.step}/${place.item ?? '-'}/${attempt}`;
  }

  /** Releases one attempt. Returns whether it was waiting. */
  open(key: string, outcome: HandlerOutcome): boolean {
    const resolve = this.#waiting.get(key);
    this.#waiting.delete(key);
    resolve?.(outcome);
    return resolve !== undefined;
  }

  async pass(ctx: StepContext<string>, step: number): Promise<readonly string[]> {
    const opened = new Promise<HandlerOutcome>((resolve) => {
      this.#waiting.set(Gates.key({ step, item: ctx.index }, ctx.attempt), resolve);
    });
    const outcome = await Promise.race([opened, ctx.canceled()]);
    ctx.throwIfCanceled();
    if (outcome === 'fail') throw new Error('failed by the test');
    if (outcome === 'early') ctx.completeEarly('early', 'ended by the test');
    return [nameOf(step), nameOf(step), nameOf(step)];
  }
}

/** The builder without its types, which a random flow cannot satisfy. */
interface Untyped {
  step(name: string, options: object, handler: unknown): Untyped;
  map(name: string, options: object, handler: unknown): Untyped;
  generator(name: string, options: object, generate: unknown, handler: unknown): Untyped;
  reduce(name: string, options: object, handler: unknown): Untyped;
  onFail(handler: () => void): Untyped;
  output(): FlowDefinition<FlowInput>;
}

export interface FlowInput {
  readonly holds: readonly boolean[];
  readonly items: readonly (readonly number[])[];
}

/** Builds the flow of a specification. Its input, from `toInput`, decides its conditions and items. */
export function toFlow(spec: FlowSpec, gates: Gates): FlowDefinition<FlowInput> {
  let builder = flow('random').completesEarly<string>() as unknown as Untyped;
  for (const [place, step] of spec.steps.entries()) {
    builder = addStep(builder, { spec, step, place, gates });
  }
  return (spec.hasOnFail ? builder.onFail(() => undefined) : builder).output();
}

export function toInput({ steps }: FlowSpec): FlowInput {
  return {
    holds: steps.map(({ condition }) => condition?.kind === 'flag' && condition.holds),
    items: steps.map(({ items }) => Array.from({ length: items }, (_, index) => index)),
  };
}

function addStep(
  builder: Untyped,
  { spec, step, place, gates }: { spec: FlowSpec; step: StepSpec; place: number; gates: Gates },
): Untyped {
  const name = nameOf(place);
  const options = toOptions(spec, step, place);
  const handler = (ctx: StepContext<string>) => gates.pass(ctx, place);
  const { concurrency, items } = step;
  switch (step.kind) {
    case 'step':
      return builder.step(name, options, handler);
    case 'map': {
      const over = ({ input }: Record<string, never>) => input?.['items']?.[place];
      return builder.map(name, { ...options, over, concurrency }, handler);
    }
    case 'generator':
      return builder.generator(
        name,
        { ...options, concurrency },
        async function* () {
          for (let item = 0; item < items; item += 1) yield item;
        },
        handler,
      );
    case 'reduce': {
      const over = (sources: Record<string, Record<string, unknown>>) =>
        step.source === undefined ? sources['input']?.['holds'] : sources[nameOf(step.source)];
      const fold = (_ctx: unknown, all: readonly unknown[], item: unknown) => [...all, item];
      return builder.reduce(name, { ...options, over, initial: [], batch: reduceBatchSize }, fold);
    }
  }
}

function toOptions(spec: FlowSpec, step: StepSpec, place: number): object {
  const optional = optionalOf(step, spec.steps);
  const given = (how: 'needs' | 'after') =>
    Object.entries(step.dependencies)
      .filter(([index, each]) => each === how && !optional.includes(Number(index)))
      .map(([index]) => nameOf(Number(index)));
  const { condition } = step;
  const when = (references: Record<string, Record<string, Record<number, never>>>) =>
    condition?.kind === 'exists'
      ? exists(references[nameOf(optional[0] ?? 0)] as never)
      : eq(references['input']?.['holds']?.[place] as never, true);
  return {
    needs: given('needs'),
    after: given('after'),
    optional: optional.map(nameOf),
    ...(condition !== undefined && { when }),
    ...(step.hasSignal && { signal: event(`signal ${place}`) }),
    retry: { maxAttempts: step.maxAttempts, initialDelay: 1, jitter: 0 },
  };
}
