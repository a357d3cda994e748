import { z } from 'zod';
import type { RouteShape } from '../../../src/server/routes/route.ts';
import { routes, type RouteName } from '../../../src/server/routes/table.ts';
import type { Parts } from './server-fixture.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Seeded random numbers. */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0 and less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }

  chance(chance: number): boolean {
    return this.next() < chance;
  }
}

const hostile: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  -1e-308,
  Number.MAX_SAFE_INTEGER,
  '',
  ' ',
  'constructor',
  'toString',
  '\u0000',
  '\u2028',
  '\ud800',
  "'; DROP TABLE instances; --",
  '../../etc/passwd',
  '%00',
  '%2e%2e%2f',
  '<script>alert(1)</script>',
  '${7*7}',
  '😀'.repeat(50),
  'x'.repeat(300),
  'x'.repeat(5_000),
  [],
  [[]],
  {},
  { length: -1 },
  { toJSON: 1 },
  { constructor: { prototype: { polluted: true } } },
  { $ne: null },
];

const words = [
  'a',
  'w',
  's',
  'job',
  'hello',
  'waits',
  'fails',
  'tells',
  'double',
  'emits',
  'review',
  'approved',
  'incarnation-1',
  'doubled',
  '1s',
  '@daily',
  'nightly',
];

/** Generates almost valid requests: from the route schemas, with some values replaced. */
export class RequestGenerator {
  readonly #random: SeededRandom;
  readonly #bodies = new Map<RouteName, Schema>();

  constructor(random: SeededRandom) {
    this.#random = random;
    for (const [name, shape] of Object.entries<RouteShape>(routes)) {
      if (shape.body === undefined) continue;
      const schema = z.toJSONSchema(shape.body, { io: 'input', unrepresentable: 'any' });
      this.#bodies.set(name as RouteName, schema);
    }
  }

  make(name: RouteName): Parts {
    const shape: RouteShape = routes[name];
    const paramNames = Object.keys(shape.params?.shape ?? {});
    const queryNames = Object.keys(shape.query?.shape ?? {});
    const params = Object.fromEntries(paramNames.map((param) => [param, this.#text()]));
    const query = Object.fromEntries(
      queryNames
        .filter(() => this.#random.chance(0.5))
        .map((param) => [param, this.#queryValue(param)]),
    );
    if (this.#random.chance(0.05)) query[String(this.#text())] = 'surplus';
    if (shape.waits === true && shape.query !== undefined) query['timeoutMs'] = this.#timeout();
    const schema = this.#bodies.get(name);
    if (schema === undefined) return { params, query };
    const body = this.#value(schema, schema, 0);
    // The default wait of 30 s is too long for thousands of requests.
    if (shape.waits === true && isFields(body)) body['timeoutMs'] = this.#timeout();
    return { params, query, body };
  }

  #timeout(): unknown {
    return this.#random.chance(0.9)
      ? this.#random.below(5)
      : this.#random.pick([-1, 'x', 1e9, null]);
  }

  #queryValue(name: string): unknown {
    if (this.#random.chance(0.3)) return this.#random.pick(hostile);
    if (/limit|after|count|executionId|created/.test(name)) return this.#random.below(20);
    if (name === 'status')
      return this.#random.pick(['completed', 'running', ['failed', 'canceled']]);
    return this.#text();
  }

  #text(): string {
    if (this.#random.chance(0.8)) return this.#random.pick(words);
    return String(
      this.#random.pick(hostile.filter((value) => typeof value === 'string')) || 'a',
    ).toWellFormed();
  }

  #value(schema: Schema, root: Schema, depth: number): unknown {
    const random = this.#random;
    if (random.chance(0.06) || depth > 8) return random.pick(hostile);
    const { $ref, anyOf, oneOf, allOf, enum: choices, const: only, type } = schema;
    if (typeof $ref === 'string') return this.#value(resolve($ref, root), root, depth + 1);
    const union = (anyOf ?? oneOf ?? allOf) as readonly Schema[] | undefined;
    if (union !== undefined) return this.#value(random.pick(union), root, depth + 1);
    if (Array.isArray(choices)) return random.pick(choices as readonly unknown[]);
    if (only !== undefined) return only;
    switch (type) {
      case 'object':
        return this.#object(schema, root, depth);
      case 'array':
        return Array.from({ length: random.below(4) }, () =>
          this.#value((schema['items'] ?? {}) as Schema, root, depth + 1),
        );
      case 'string':
        return this.#text();
      case 'integer':
      case 'number':
        return random.pick([0, 1, 2, 5, 100, 5_000, 30_000]);
      case 'boolean':
        return random.chance(0.5);
      case 'null':
        return null;
      default:
        return random.pick([...hostile, ...words]);
    }
  }

  #object(schema: Schema, root: Schema, depth: number): Record<string, unknown> {
    const properties = Object.entries((schema['properties'] ?? {}) as Record<string, Schema>);
    const required = (schema['required'] ?? []) as readonly string[];
    const chosen = properties.filter(([name]) =>
      this.#random.chance(required.includes(name) ? 0.97 : 0.4),
    );
    const fields = chosen.map(([name, one]) => [name, this.#value(one, root, depth + 1)] as const);
    const { additionalProperties } = schema;
    const isRecord = typeof additionalProperties === 'object' && additionalProperties !== null;
    if (isRecord || this.#random.chance(0.05)) {
      const surplus = isRecord ? (additionalProperties as Schema) : {};
      return Object.fromEntries([...fields, [this.#text(), this.#value(surplus, root, depth + 1)]]);
    }
    return Object.fromEntries(fields);
  }
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function resolve(ref: string, root: Schema): Schema {
  if (ref === '#') return root;
  const definitions = root['$defs'] as Readonly<Record<string, Schema>>;
  return definitions[ref.replace('#/$defs/', '')] ?? {};
}
