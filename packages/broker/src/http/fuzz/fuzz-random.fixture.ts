// Random choices that a seed repeats, and values that have broken programs before.
export interface Random {
  /** From 0 up to, and without, `below`. */
  int(below: number): number
  pick<T>(values: readonly T[]): T
  chance(share: number): boolean
  text(chars: number): string
}

export function createRandom(seed: number): Random {
  let state = seed >>> 0
  // A small generator of 32 bits with a long period: repeatable, and good enough to wander.
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const int = (below: number): number => Math.floor(next() * below)
  const pick = <T>(values: readonly T[]): T => values[int(values.length)] as T
  const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'
  const text = (chars: number): string => Array.from({ length: chars }, () => letters[int(letters.length)]).join('')
  return { int, pick, chance: (share) => next() < share, text }
}

/** Texts a name may well have; each is made unique where it must be. */
export const oddTexts: readonly string[] = [
  "Robert'); drop table stacks;--",
  "' or 1=1 --",
  '$1',
  '%s%n%d',
  '{{ 7*7 }}',
  '${jndi:ldap://x}',
  '../../etc/passwd',
  'C:\\x\\y',
  '<script>alert(1)</script>',
  'null',
  'undefined',
  'NaN',
  'true',
  '0x10',
  '1e308',
  'ümläut',
  '日本語',
  '🙂🙂🙂',
  'a\u0301combining',
  '\u202eright-to-left',
  '\u00a0nbsp',
  '\ufefff',
  'x'.repeat(64),
  'x'.repeat(255),
  '-rf',
  '*',
  'a/b',
  'a%2Fb',
  'a;b',
  '#',
  '?',
  '__proto__',
  'constructor',
  'toString',
  'brokkr_BRabcdef_1',
]

/** Texts nobody should accept everywhere. */
export const brokenTexts: readonly string[] = [
  '',
  ' ',
  '\t',
  '\n',
  'a\u0000b',
  '\ud800',
  'a\udc00',
  '\u0007bell',
  '\u007f',
  'x'.repeat(256),
  'x'.repeat(4097),
  'x'.repeat(70_000),
  '\u2028',
]

export const oddNumbers: readonly number[] = [
  -1,
  0,
  1,
  -0,
  1.5,
  2 ** 31,
  -(2 ** 31) - 1,
  2 ** 53 - 1,
  2 ** 53,
  2 ** 63,
  1e20,
  1e300,
  Number.MIN_VALUE,
]

export const oddTimes: readonly string[] = [
  '2026-01-02T03:04:05Z',
  '2026-01-02T03:04:05.123456789Z',
  '2026-01-02T03:04:05+14:00',
  '2026-01-02T23:59:60Z',
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999999Z',
  '9999-12-31T23:59:59-12:00',
  '1969-12-31T23:59:59Z',
  '2026-02-30T00:00:00Z',
  '2026-01-02 03:04:05Z',
  '2026-01-02',
  'infinity',
  '-infinity',
  'now',
  'epoch',
  '275760-09-13T00:00:00Z',
]

export const oddIds: readonly string[] = [
  '00000000-0000-0000-0000-000000000000',
  'ffffffff-ffff-ffff-ffff-ffffffffffff',
  '00000000-0000-4000-8000-00000000dead',
  'not-a-uuid',
  '{00000000-0000-4000-8000-00000000dead}',
  '00000000000040008000000000000dead',
  'urn:uuid:00000000-0000-4000-8000-00000000dead',
  '0',
]

export const oddValues: readonly unknown[] = [null, true, false, 0, -1, '', 'x', [], [[]], {}, { a: 1 }, [null], 1e300, '\u0000']

export const oddManifests: readonly string[] = [
  '',
  '---\n---\n',
  'a: [',
  'a: b: c',
  '- 1\n- 2\n',
  'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: "1"}\n',
  'apiVersion: v1\nkind: ConfigMap\n',
  'x: &a [*a]\n',
  'a: &a [1,1]\nb: &b [*a,*a]\nc: [*b,*b]\n',
  `${'['.repeat(70)}${']'.repeat(70)}`,
  'a: !!js/function "x"\n',
  'a: !!binary "////"\n',
  'a: 0o17\nb: 0644\nc: 1_000\nd: y\ne: 2026-01-01\n',
  '? [a, b]\n: c\n',
  '{a: 1, a: 2}\n',
  '<<: {a: 1}\n',
  '\ufeffa: 1\n',
  '%YAML 1.2\n---\na: 1\n',
  'a: "\\ud800"\n',
  'a: 99999999999999999999999999\n',
  'a: .inf\nb: .nan\n',
  '__proto__: {x: 1}\n',
  'kind: List\napiVersion: v1\nitems: [1, null, {kind: Pod}]\n',
  'a: |\n  text\n b\n',
  '\t\ta: 1',
]
