// The axis: one lane per kind of change, marks at their time. A mark's shape and words tell its state. Arrow keys walk the marks.

import type { TimelineEntry } from '@brokkr/contract/timeline/timeline.ts'
import { type KeyboardEvent, useMemo } from 'react'
import { formatClock, formatExact } from '../parts/age.tsx'
import { describeEntry, lanes, type Mark, toMarks, toTicks } from './timeline-model.ts'

const columns = 120
const [width, labelWidth, laneHeight, axisHeight] = [1200, 84, 34, 22]
const plotWidth = width - labelWidth - 12

export interface TimelineAxisProps {
  readonly entries: readonly TimelineEntry[]
  readonly fromMs: number
  readonly toMs: number
  /** Older records were not read yet; null if all were. */
  readonly unreadBeforeMs: number | null
  readonly chosen: string | undefined
  readonly choose: (mark: Mark | null) => void
}

export function TimelineAxis({ entries, fromMs, toMs, unreadBeforeMs, chosen, choose }: TimelineAxisProps) {
  const marks = useMemo(() => toMarks(entries, { fromMs, toMs, columns }), [entries, fromMs, toMs])
  const xOf = (ms: number) => labelWidth + ((ms - fromMs) / (toMs - fromMs)) * plotWidth
  const height = lanes.length * laneHeight + axisHeight
  const isLong = toMs - fromMs > 2 * 24 * 3_600_000
  const ordered = marks.toSorted((a, b) => a.column - b.column)
  const walk = (event: KeyboardEvent<SVGElement>, mark: Mark) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault()
      choose(mark.id === chosen ? null : mark)
    }
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    const next = step === 0 ? undefined : ordered[ordered.indexOf(mark) + step]
    if (next !== undefined) document.getElementById(`mark-${next.id}`)?.focus()
  }
  return (
    <div className="axis-wrap">
      <svg className="axis" viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`Timeline with ${marks.length} marks`}>
        {unreadBeforeMs === null || unreadBeforeMs <= fromMs ? null : (
          <g>
            <rect
              className="axis-gap"
              x={labelWidth}
              y="0"
              width={Math.max(0, xOf(unreadBeforeMs) - labelWidth)}
              height={height - axisHeight}
            />
            <text className="axis-text" x={labelWidth + 8} y={14}>
              older records are not read yet
            </text>
          </g>
        )}
        {lanes.map((lane, index) => (
          <g key={lane.id}>
            <line className="axis-line" x1="0" x2={width} y1={(index + 1) * laneHeight} y2={(index + 1) * laneHeight} />
            <text className="axis-label" x="2" y={index * laneHeight + laneHeight / 2 + 4}>
              {lane.label}
            </text>
          </g>
        ))}
        {toTicks({ fromMs, toMs }).map((ms) => (
          <g key={ms}>
            <line className="axis-tick" x1={xOf(ms)} x2={xOf(ms)} y1="0" y2={height - axisHeight} />
            <text className="axis-text" x={xOf(ms)} y={height - 6} textAnchor="middle">
              {isLong ? new Date(ms).toLocaleDateString('en', { day: 'numeric', month: 'short' }) : formatClock(ms).slice(0, 5)}
            </text>
          </g>
        ))}
        {ordered.map((mark, index) => {
          const lane = lanes.findIndex(({ id }) => id === mark.lane)
          const radius = Math.min(9, 5 + Math.log10(mark.records) * 2)
          const first = mark.entries[0]!
          const others = mark.entries.length - 1
          const label = `${formatExact(first.at)}: ${describeEntry(first)}${others === 0 ? '' : ` and ${others} more`}`
          return (
            <g
              key={mark.id}
              id={`mark-${mark.id}`}
              className={`axis-mark st-${mark.state}${mark.id === chosen ? ' on' : ''}`}
              role="button"
              aria-label={label}
              aria-pressed={mark.id === chosen}
              tabIndex={index === ordered.length - 1 ? 0 : -1}
              onClick={() => choose(mark.id === chosen ? null : mark)}
              onKeyDown={(event) => walk(event, mark)}
              transform={`translate(${labelWidth + ((mark.column + 0.5) / columns) * plotWidth} ${lane * laneHeight + laneHeight / 2})`}
            >
              <title>{label}</title>
              <circle r="12" className="axis-hit" />
              <MarkShape state={mark.state} radius={radius} />
            </g>
          )
        })}
      </svg>
    </div>
  )
}

/** A shape per state, as hue alone does not tell states apart. */
function MarkShape({ state, radius: r }: { state: Mark['state']; radius: number }) {
  if (state === 'failing') return <path d={`M${-r} ${-r} L${r} ${r} M${r} ${-r} L${-r} ${r}`} className="axis-cross" />
  if (state === 'degraded') return <path d={`M0 ${-r} L${r} ${r} L${-r} ${r} Z`} />
  if (state === 'held') return <rect x={-r} y={-r} width={2 * r} height={2 * r} rx="2" />
  if (state === 'progressing') return <path d={`M0 ${-r} L${r} 0 L0 ${r} L${-r} 0 Z`} />
  return <circle r={r} />
}
