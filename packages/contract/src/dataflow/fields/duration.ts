// Durations (`300ms`, `1h30m`) and Kubernetes quantities (`32Mi`, `100m`) as text and as numbers.

const unitMs = { ns: 1e-6, us: 1e-3, µs: 1e-3, μs: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const
const durationPattern = /^(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:ns|us|µs|μs|ms|s|m|h))+$/
const durationPart = /([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s|m|h)/g

/** Milliseconds, or undefined. `0` needs no unit. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0
  if (text.length > 64 || !durationPattern.test(text)) return undefined
  let ms = 0
  for (const [, amount, unit] of text.matchAll(durationPart)) ms += Number(amount) * unitMs[unit as keyof typeof unitMs]
  return ms
}

/** The shortest text for a number of milliseconds. */
export function printDuration(ms: number): string {
  if (ms === 0) return '0s'
  for (const unit of ['h', 'm', 's'] as const) if (ms % unitMs[unit] === 0) return `${ms / unitMs[unit]}${unit}`
  return Number.isInteger(ms) ? `${ms}ms` : `${Math.round(ms * 1e6)}ns`
}

const binary = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 } as const
const decimal = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 } as const
const factors: Readonly<Record<string, number>> = { ...binary, ...decimal }
const quantityPattern = /^([+-]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}))(?:([eE][+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE]))?$/

/** The number of a quantity, or undefined. */
export function parseQuantity(text: string): number | undefined {
  const match = quantityPattern.exec(text)
  if (match === null) return undefined
  const [, digits, exponent, suffix] = match
  if (exponent !== undefined) return Number(`${digits}${exponent}`)
  return Number(digits) * (suffix === undefined ? 1 : factors[suffix]!)
}

/** The shortest binary text for a number of bytes. */
export function printQuantity(bytes: number): string {
  for (const [suffix, factor] of Object.entries(binary).toReversed())
    if (bytes !== 0 && bytes % factor === 0) return `${bytes / factor}${suffix}`
  return String(bytes)
}
