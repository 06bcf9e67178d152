// Draws one cell of 13 px: the shapes of the design, so that states differ without colour.
import type { State } from './icon.tsx'

interface Place {
  readonly x: number
  readonly y: number
  readonly colour: (name: string) => string
}

export function drawCell(context: CanvasRenderingContext2D, state: State, { x, y, colour }: Place): void {
  context.save()
  context.translate(x + 0.5, y + 0.5)
  shapes[state](context, colour)
  context.restore()
}

type Shape = (context: CanvasRenderingContext2D, colour: Place['colour']) => void

function fillBox(context: CanvasRenderingContext2D, fill: string): void {
  context.fillStyle = fill
  context.beginPath()
  context.roundRect(0, 0, 13, 13, 2.5)
  context.fill()
}

function outlineBox(context: CanvasRenderingContext2D, fill: string, stroke: string): void {
  context.fillStyle = fill
  context.strokeStyle = stroke
  context.lineWidth = 1.5
  context.beginPath()
  context.roundRect(0.75, 0.75, 11.5, 11.5, 2)
  context.fill()
  context.stroke()
}

function strokeLines(
  context: CanvasRenderingContext2D,
  colour: string,
  lines: readonly (readonly [number, number, number, number])[],
  width = 1.8,
) {
  context.strokeStyle = colour
  context.lineWidth = width
  context.lineCap = 'round'
  context.beginPath()
  for (const [fromX, fromY, toX, toY] of lines) {
    context.moveTo(fromX, fromY)
    context.lineTo(toX, toY)
  }
  context.stroke()
}

function fillShape(context: CanvasRenderingContext2D, colour: string, points: readonly (readonly [number, number])[]): void {
  context.fillStyle = colour
  context.beginPath()
  for (const [px, py] of points) context.lineTo(px, py)
  context.fill()
}

const shapes: Readonly<Record<State, Shape>> = {
  current: (context, colour) => fillBox(context, colour('current-solid')),
  failing: (context, colour) => {
    fillBox(context, colour('failing-solid'))
    strokeLines(context, colour('surface'), [
      [4, 4, 9, 9],
      [9, 4, 4, 9],
    ])
  },
  degraded: (context, colour) => {
    fillBox(context, colour('degraded-solid'))
    fillShape(context, colour('surface'), [
      [6.5, 3.2],
      [10.2, 9.8],
      [2.8, 9.8],
    ])
  },
  held: (context, colour) => {
    fillBox(context, colour('held-solid'))
    strokeLines(context, colour('surface'), [
      [4.7, 3.8, 4.7, 9.2],
      [8.3, 3.8, 8.3, 9.2],
    ])
  },
  behind: (context, colour) => {
    outlineBox(context, colour('behind-tint'), colour('behind-solid'))
    context.fillStyle = colour('behind-solid')
    context.fillRect(1, 6.5, 11, 5.5)
  },
  progressing: (context, colour) => {
    outlineBox(context, colour('progressing-tint'), colour('progressing-solid'))
    fillShape(context, colour('progressing-solid'), [
      [1, 12],
      [1, 3],
      [10, 12],
    ])
  },
  stale: (context, colour) => {
    context.setLineDash([2.5, 1.6])
    outlineBox(context, colour('stale-tint'), colour('stale-solid'))
    context.setLineDash([])
    strokeLines(
      context,
      colour('stale-solid'),
      [
        [2, 11, 11, 2],
        [2, 6.5, 6.5, 2],
        [6.5, 11, 11, 6.5],
      ],
      1,
    )
  },
  unknown: (context, colour) => {
    context.setLineDash([1, 1.8])
    outlineBox(context, 'transparent', colour('unknown-solid'))
    context.setLineDash([])
    context.fillStyle = colour('unknown-solid')
    context.beginPath()
    context.arc(6.5, 6.5, 1.3, 0, 7)
    context.fill()
  },
  wait: (context, colour) => outlineBox(context, 'transparent', colour('line-2')),
}
