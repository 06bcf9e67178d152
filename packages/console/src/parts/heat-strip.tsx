// One cell per cluster on a canvas: hue is the state, a pattern repeats it, paleness is age. Arrow keys move, Enter opens; the text of the
// cell under the cursor is read to screen readers.
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'react'
import { useTheme } from '../shell/theme.ts'
import { drawCell } from './draw-cell.ts'
import type { State } from './icon.tsx'
import { plainText } from './text.tsx'

export interface Cell {
  readonly id: string
  readonly name: string
  readonly state: State
  readonly note: string
}

const cellSize = 13
const step = 16

export interface HeatStripProps {
  readonly cells: readonly Cell[]
  readonly label: string
  readonly selected?: string | undefined
  readonly onOpen: (id: string) => void
}

export function HeatStrip({ cells, label, selected, onOpen }: HeatStripProps) {
  const place = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const [columns, setColumns] = useState(40)
  const [active, setActive] = useState<number | null>(null)
  const theme = useTheme()
  const optionId = useId()
  const rows = Math.max(1, Math.ceil(cells.length / columns))
  useLayoutEffect(() => {
    const element = place.current!
    const measure = () => setColumns(Math.max(1, Math.floor((element.clientWidth + 3) / step)))
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  useEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (!context) return
    const scale = devicePixelRatio
    const width = Math.min(cells.length, columns) * step
    canvas.current!.width = width * scale
    canvas.current!.height = rows * step * scale
    canvas.current!.style.width = `${width}px`
    canvas.current!.style.height = `${rows * step}px`
    context.setTransform(scale, 0, 0, scale, 0, 0)
    const style = getComputedStyle(document.documentElement)
    const colours = new Map<string, string>()
    const colour = (name: string) => {
      const known = colours.get(name) ?? style.getPropertyValue(`--${name}`)
      colours.set(name, known)
      return known
    }
    for (const [index, cell] of cells.entries()) {
      const x = (index % columns) * step
      const y = Math.floor(index / columns) * step
      drawCell(context, cell.state, { x, y, colour })
      if (cell.id === selected || index === active) {
        context.strokeStyle = colour('ink')
        context.lineWidth = 1.5
        context.strokeRect(x - 0.75 + 0.5, y - 0.75 + 0.5, cellSize + 0.5, cellSize + 0.5)
      }
    }
  }, [cells, columns, rows, selected, active, theme])
  const at = (event: React.PointerEvent | React.MouseEvent): number | null => {
    const box = canvas.current!.getBoundingClientRect()
    const column = Math.floor((event.clientX - box.left) / step)
    const index = Math.floor((event.clientY - box.top) / step) * columns + column
    return column < columns && index >= 0 && index < cells.length ? index : null
  }
  const open = (index: number | null) => {
    const cell = index === null ? undefined : cells[index]
    if (cell !== undefined) onOpen(cell.id)
  }
  const shown = active === null ? undefined : cells[active]
  return (
    <div
      ref={place}
      className="heat-strip"
      role="listbox"
      aria-label={`${label}: ${summarize(cells)}`}
      tabIndex={0}
      aria-activedescendant={shown === undefined ? undefined : optionId}
      onKeyDown={(event) => {
        const moves: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }
        const by = moves[event.key]
        if (by !== undefined) setActive((now) => Math.max(0, Math.min(cells.length - 1, now === null ? 0 : now + by)))
        else if (event.key === 'Enter') open(active)
        else return
        event.preventDefault()
      }}
      onBlur={() => setActive(null)}
      onPointerMove={(event) => setActive(at(event))}
      onPointerLeave={() => setActive(null)}
      onClick={(event) => open(at(event))}
    >
      <canvas ref={canvas} aria-hidden="true" />
      <div
        id={optionId}
        role="option"
        aria-selected={shown !== undefined && shown.id === selected}
        className={shown === undefined ? 'sr-only' : 'tip heat-tip'}
        style={
          shown === undefined
            ? {}
            : { left: Math.max(0, ((active ?? 0) % columns) * step - 60), top: Math.floor((active ?? 0) / columns) * step + 22 }
        }
      >
        {shown === undefined ? summarize(cells) : <b className="mono b">{plainText(shown.name, 100)}</b>}
        {shown === undefined ? null : <span className="ink-2"> {plainText(shown.note, 200)}</span>}
      </div>
    </div>
  )
}

function summarize(cells: readonly Cell[]): string {
  const counts = Map.groupBy(cells, ({ state }) => state)
  return cells.length === 0 ? 'none' : [...counts].map(([state, list]) => `${list.length} ${state}`).join(', ')
}
