/** Tests the helper of the type tests: it must reject everything but the same type. */
import { exactly } from './exactly.ts';

declare const text: string;
declare const either: string | number;
declare const value: { readonly a: string };

exactly<string>()(text);
exactly<string | number>()(either);
exactly<unknown>()(text as unknown);
// @ts-expect-error narrower
exactly<string | number>()(text);
// @ts-expect-error wider
exactly<string>()(either);
// @ts-expect-error unknown is wider than everything
exactly<unknown>()(text);
// @ts-expect-error a property less
exactly<{ readonly a: string; readonly b: string }>()(value);
// @ts-expect-error any is not a type to rely on
exactly<string>()(JSON.parse('1'));
