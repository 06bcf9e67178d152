import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseCron } from '../fields/cron.ts'
import { parseDuration, parseQuantity, printDuration, printQuantity } from '../fields/duration.ts'
import { compareInstants, parseInstant } from './instant.ts'
import { compileLayout, layoutNames } from './layout.ts'
import { instantOfLocal, isIanaZone, parseZone } from './zone.ts'

describe('durations and quantities', () => {
  test.each<[string, number | undefined]>([
    ['300ms', 300],
    ['30s', 30_000],
    ['1h30m', 5_400_000],
    ['1.5s', 1500],
    ['0', 0],
    ['250us', 0.25],
    ['5', undefined],
    ['1d', undefined],
    ['-1s', undefined],
    ['s', undefined],
    ['1s ', undefined],
  ])('the duration %s is %s ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test.each<[string, number | undefined]>([
    ['32Mi', 33_554_432],
    ['900k', 900_000],
    ['100m', 0.1],
    ['1e3', 1000],
    ['5', 5],
    ['-1', -1],
    ['1.5Gi', 1_610_612_736],
    ['1MiB', undefined],
    ['Mi', undefined],
    ['', undefined],
  ])('the quantity %s is %s', (text, value) => {
    expect(parseQuantity(text)).toBe(value)
  })

  test('a printed duration or quantity parses to the same number', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), (ms, bytes) => {
        expect(parseDuration(printDuration(ms))).toBe(ms)
        expect(parseQuantity(printQuantity(bytes))).toBe(bytes)
      }),
    )
  })
})

describe('instants', () => {
  test.each([
    '2026-02-30T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:00:00',
    '2026-01-01 00:00:00Z',
    '2026-01-01T00:00:00+24:00',
    'now',
    '',
  ])('%s is no RFC3339 time', (text) => {
    expect(parseInstant(text)).toBeUndefined()
  })

  test('compareInstants orders by time', () => {
    const at = (text: string) => parseInstant(text)!
    expect(compareInstants(at('2026-01-01T00:00:00Z'), at('2025-12-31T23:00:00-01:00'))).toBe(0)
    expect(compareInstants(at('2026-01-01T00:00:00.10Z'), at('2026-01-01T00:00:00.1Z'))).toBe(0)
    expect(compareInstants(at('2026-01-01T00:00:00.123456789Z'), at('2026-01-01T00:00:00.1234567891Z'))).toBe(-1)
    expect(at('0001-01-01T00:00:00Z').seconds).toBe(-62_135_596_800)
  })
})

describe('zones', () => {
  const iso = (seconds: number): string => new Date(seconds * 1000).toISOString()
  const local = (text: string): number => Date.parse(`${text}Z`) / 1000

  test.each<[string, string, string]>([
    ['America/New_York', '2026-11-01T01:30:00', '2026-11-01T05:30:00.000Z'], // doubled: the first
    ['America/New_York', '2026-03-08T02:30:00', '2026-03-08T07:30:00.000Z'], // skipped: moved forward
    ['America/New_York', '2026-07-01T00:00:00', '2026-07-01T04:00:00.000Z'],
    ['Australia/Lord_Howe', '2026-04-05T01:45:00', '2026-04-04T14:45:00.000Z'], // doubled by half an hour
    ['Pacific/Apia', '2011-12-30T12:00:00', '2011-12-30T22:00:00.000Z'], // a day that never was
    ['Europe/Moscow', '2024-01-15T15:00:00', '2024-01-15T12:00:00.000Z'],
    ['+05:30', '2026-01-01T00:00:00', '2025-12-31T18:30:00.000Z'],
    ['-03:00', '2026-01-01T00:00:00', '2026-01-01T03:00:00.000Z'],
    ['UTC', '2026-01-01T00:00:00', '2026-01-01T00:00:00.000Z'],
  ])('in %s a clock at %s shows %s', (zone, shown, instant) => {
    expect(iso(instantOfLocal(parseZone(zone)!, local(shown)))).toBe(instant)
  })

  test('a cached zone offset is correct before and after a change', () => {
    const berlin = parseZone('Europe/Berlin')!
    const change = Date.parse('2026-03-29T01:00:00Z') / 1000
    expect([change - 1, change, change - 1, change + 1].map((at) => berlin.offsetAt(at))).toEqual([3600, 7200, 3600, 7200])
  })

  test('parseZone rejects unknown zones, isIanaZone also offsets', () => {
    for (const name of ['Not/AZone', '', '+25:00', '+1:00', 'EST5EDT4']) expect([name, parseZone(name)]).toEqual([name, undefined])
    expect(isIanaZone('Europe/Berlin')).toBe(true)
    expect(isIanaZone('+01:00')).toBe(false)
  })

  test('local time converts back to the instant, except in the repeated hour', () => {
    const zone = parseZone('America/New_York')!
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_000_000_000 }), (seconds) => {
        const shown = seconds + zone.offsetAt(seconds)
        expect([seconds, seconds - 3600]).toContain(instantOfLocal(zone, shown))
      }),
      { numRuns: 500 },
    )
  })
})

describe('layouts', () => {
  const at = (layout: string, zone = 'UTC', nanos = 120_000_000): string => compileLayout(layout)!(parseZone(zone)!, 1_768_571_703, nanos)

  test.each(
    Object.entries({
      RFC3339: '2026-01-16T13:55:03Z',
      RFC3339Nano: '2026-01-16T13:55:03.12Z',
      RFC1123: 'Fri, 16 Jan 2026 13:55:03 UTC',
      RFC1123Z: 'Fri, 16 Jan 2026 13:55:03 +0000',
      RFC822: '16 Jan 26 13:55 UTC',
      RFC850: 'Friday, 16-Jan-26 13:55:03 UTC',
      ANSIC: 'Fri Jan 16 13:55:03 2026',
      Kitchen: '1:55PM',
      DateTime: '2026-01-16 13:55:03',
      DateOnly: '2026-01-16',
      TimeOnly: '13:55:03',
    }),
  )('%s', (name, text) => {
    expect(at(layoutNames[name]!)).toBe(text)
  })

  test.each<[string, string, string]>([
    ['02 Jan 2006 15:04', 'UTC', '16 Jan 2026 13:55'],
    ['2006-01-02T15:04:05.000Z0700', 'America/New_York', '2026-01-16T08:55:03.120-0500'],
    ['Mon Jan __2 002 3pm,999', 'UTC', 'Fri Jan  16 016 1pm,12'],
    ['2006-01-02T15:04:05Z07:00', 'Asia/Kathmandu', '2026-01-16T19:40:03+05:45'],
    ['15:04 MST', 'Europe/Berlin', '14:55 CET'],
    ['15:04 MST', 'Europe/Moscow', '16:55 +03'],
  ])('%s in %s', (layout, zone, text) => {
    expect(at(layout, zone)).toBe(text)
  })

  test('a text without layout elements is rejected', () => {
    expect(compileLayout('banana')).toBeUndefined()
    expect(compileLayout('')).toBeUndefined()
  })
})

describe('cron texts', () => {
  test.each<[string, string]>([
    ['*/5 * * * *', '*/5 * * * *'],
    ['0 */5 * * * *', '*/5 * * * *'],
    ['@hourly', '0 * * * *'],
    ['@YEARLY', '0 0 1 1 *'],
    ['0 9-17/2 1,15 jan-jun MON-FRI', '0 9-17/2 1,15 jan-jun MON-FRI'],
    [' 0  0 ? * 0 ', '0 0 ? * 0'],
  ])('%s', (text, five) => {
    expect(parseCron(text)).toEqual({ ok: true, text: five })
  })

  test.each([
    '* * * *',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * * 13 *',
    '* * * * 7',
    '*/0 * * * *',
    '5-1 * * * *',
    '1- * * * *',
    'a * * * *',
    '@never',
    '',
  ])('refused: %s', (text) => {
    expect(parseCron(text)).toEqual({ ok: false, hasSeconds: false })
  })

  test('seconds are distinguished from invalid text', () => {
    expect(parseCron('30 * * * * *')).toEqual({ ok: false, hasSeconds: true })
  })
})
