// The graph of a flow, left to right. Edges to dead letters are dotted. At small widths a list says the same.
import { plainText } from '../parts/text.tsx'
import { type FlowGraph as Graph, nodeHeight, nodeWidth } from './flow-graph-model.ts'

export function FlowGraph({ graph }: { graph: Graph }) {
  const find = (id: string) => graph.nodes.find((node) => node.id === id)!
  return (
    <div className="flow-graph" tabIndex={0} role="region" aria-label="Graph of the flow">
      <svg
        width={graph.width}
        height={graph.height}
        viewBox={`0 0 ${graph.width} ${graph.height}`}
        role="img"
        aria-label={graph.nodes.map(({ role, type, note }) => `${role} ${type} ${plainText(note, 60)}`).join(', ')}
      >
        {graph.edges.map((edge) => {
          const [from, to] = [find(edge.from), find(edge.to)]
          const [x1, y1, x2, y2] = [from.x + nodeWidth, from.y + nodeHeight / 2, to.x, to.y + nodeHeight / 2]
          const bend = (x2 - x1) / 2
          return (
            <g key={edge.id}>
              <path className={`flow-edge ${edge.kind}`} d={`M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} />
              {edge.label === null ? null : (
                <text className="axis-text" x={x2 - 6} y={y2 - 6} textAnchor="end">
                  {plainText(edge.label, 18)}
                </text>
              )}
            </g>
          )
        })}
        {graph.nodes.map((node) => (
          <g key={node.id} transform={`translate(${node.x} ${node.y})`}>
            <title>{`${node.role}: ${plainText(node.type, 60)} ${plainText(node.note, 300)}`}</title>
            <rect className={`flow-node ${node.role}`} width={nodeWidth} height={nodeHeight} rx="8" />
            <text className="flow-type" x="12" y="23">
              {plainText(node.type, 22)}
            </text>
            <text className="axis-text" x="12" y="42">
              {cutEnd(plainText(node.note, 300))}
            </text>
          </g>
        ))}
      </svg>
    </div>
  )
}

const cutEnd = (text: string): string => (text.length > 26 ? `${text.slice(0, 25)}…` : text)
