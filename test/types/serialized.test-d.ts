/** `Serialized<T>` is the type of a value after JSON; `tsc` is the test, nothing here runs. */
import {
  activity,
  orchestration,
  serialized,
  update,
  type Awakeable,
  type DurablePromise,
  type Perdure,
  type Serialized,
} from 'perdure';
import { serialized as serializedInBrowser } from 'perdure/remote';
import { exactly } from './exactly.ts';

declare const perdure: Perdure;
const { client } = perdure;

class Money {
  readonly cents: number = 5;
  add(other: Money): number {
    return this.cents + other.cents;
  }
}
interface Row {
  readonly id: number;
  readonly createdAt: Date;
  readonly endedAt: Date | null;
  readonly price?: Money;
  readonly marks: readonly (Date | undefined)[];
  readonly pair: readonly [Date, Money];
  readonly kind: 'a' | 'b';
}
interface PlainRow {
  readonly id: number;
  readonly createdAt: string;
  readonly endedAt: string | null;
  readonly price?: { readonly cents: number };
  readonly marks: readonly (string | null)[];
  readonly pair: readonly [string, { readonly cents: number }];
  readonly kind: 'a' | 'b';
}
declare const row: Row;
declare const plain: PlainRow;
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the type
declare function typeOf<T>(): T;

// Both directions: the types are the same.
plain satisfies Serialized<Row>;
serialized(row) satisfies PlainRow;
serializedInBrowser(row) satisfies PlainRow;
exactly<string>()(serialized(new Date()));
exactly<string>()(serialized(new URL('http://localhost')));
exactly<undefined>()(serialized(undefined));
exactly<string | undefined>()(typeOf<Serialized<Date | undefined>>());
exactly<unknown>()(typeOf<Serialized<unknown>>());
exactly<never>()(typeOf<Serialized<bigint>>());
exactly<never>()(typeOf<Serialized<Map<string, number>>>());
exactly<never>()(typeOf<Serialized<Promise<number>>>());
exactly<{ readonly cents: number }[]>()(typeOf<Serialized<Money[]>>());
exactly<Record<string, string>>()(typeOf<Serialized<Record<string, Date>>>());

// Applied to what is plain already, it changes nothing.
exactly<{ a: 1; b?: string | undefined }>()(typeOf<Serialized<{ a: 1; b?: string | undefined }>>());

// The converted type reaches callers, through each kind of call.
const read = activity('read', async () => serialized(row));
const report = orchestration('report', async (ctx) => {
  const one = await ctx.call(read);
  one.createdAt satisfies string;
  // @ts-expect-error the date arrived as text
  one.createdAt.getTime();
  const two = await ctx.run('read again', () => serialized({ at: new Date() }));
  exactly<{ at: string }>()(two);
  return { at: two.at };
});
exactly<Promise<{ at: string }>>()(client.handle(report, 'r-1').result());

// Results that may be undefined, of each kind of call.
const maybe = update<string | undefined, number | undefined>('maybe');
orchestration('undefined results', async (ctx) => {
  exactly<DurablePromise<string | undefined>>()(
    ctx.run('step', () => undefined as string | undefined),
  );
  exactly<DurablePromise<void>>()(ctx.run('nothing', () => {}));
  exactly<Awakeable<string | undefined>>()(ctx.awakeable<string | undefined>());
  exactly<string | undefined>()(ctx.state.get<string>('key'));
  ctx.onUpdate(maybe, {
    handle: (input) => {
      exactly<string | undefined>()(input);
      return undefined;
    },
  });
  await ctx.updatesSettled();
});
exactly<Promise<number | undefined>>()(client.update('u-1', maybe, undefined));
// The input of an update may be omitted if it can be undefined.
void client.update('u-1', maybe);
// @ts-expect-error the input is of the wrong type
void client.update('u-1', maybe, 5);
