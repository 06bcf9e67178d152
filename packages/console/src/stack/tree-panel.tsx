// The resource tree of a stack on one cluster, down to the pod, and the chosen object beside it.
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useCall } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { Glyph, Icon, Pill, StateText } from '../parts/icon.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { healthState, worstOf } from '../parts/states.ts'
import { Name, plainText } from '../parts/text.tsx'
import { layoutTree, type PlacedNode } from './layout-tree.ts'

interface TreePanelProps {
  readonly stackId: string
  readonly stackName: string
  readonly cluster: AgentStackStatus | undefined
  readonly selected: string | undefined
  readonly select: (uid: string | null) => void
}

export function TreePanel({ stackId, stackName, cluster, selected, select }: TreePanelProps) {
  const tree = useCall(
    'getStackTree',
    { params: { id: stackId }, query: { agent_id: cluster?.agent_id ?? '' } },
    { enabled: cluster !== undefined, everyMs: 15_000 },
  )
  if (cluster === undefined)
    return (
      <Empty title="No cluster receives this stack" command={`brokkr stacks label ${stackName} env:prod`}>
        Give the stack a label that a cluster has, or target a cluster under Targets.
      </Empty>
    )
  return (
    <PanelBody query={tree}>
      {(trees) => {
        const found = trees.find(({ agent_id }) => agent_id === cluster.agent_id)
        if (found === undefined || found.nodes.length === 0)
          return <Empty title="No object reported yet">The agent reports the objects of a stack after it applied them.</Empty>
        return <Tree nodes={found.nodes} observedAt={found.observed_at} stackName={stackName} selected={selected} select={select} />
      }}
    </PanelBody>
  )
}

type Nodes = Parameters<typeof layoutTree>[0]

function Tree({
  nodes,
  observedAt,
  stackName,
  selected,
  select,
}: { nodes: Nodes; observedAt: string; stackName: string } & Pick<TreePanelProps, 'selected' | 'select'>) {
  const worst = worstOf(nodes.map(({ health }) => healthState(health)))
  const layout = useMemo(
    () => layoutTree(nodes, { name: stackName, health: worst === 'current' ? 'healthy' : worst }),
    [nodes, stackName, worst],
  )
  const [isList, setList] = useState(() => matchMedia('(max-width: 900px)').matches)
  const chosen = layout.nodes.find(({ uid }) => uid === selected)
  const healthy = nodes.filter(({ health }) => health === 'healthy').length
  return (
    <div className={chosen === undefined ? 'cols' : 'cols with-panel'}>
      <div>
        {isList ? (
          <ul className="list">
            {nodes.map((node) => (
              <li key={node.uid}>
                <span className="kind">{shortKind(node.kind)}</span>
                <button type="button" className="grow link-row cut" onClick={() => select(node.uid)}>
                  <Name text={node.name} />
                </button>
                <Glyph state={healthState(node.health)} />
              </li>
            ))}
          </ul>
        ) : (
          <div className="tree" role="group" tabIndex={0} aria-label={`Objects of ${stackName}`}>
            <div className="tree-in" style={{ width: layout.width, height: layout.height }}>
              <svg className="edges" width={layout.width} height={layout.height} aria-hidden="true">
                {layout.edges.map(({ id, from: [x, y], to: [toX, toY], hot }) => (
                  <path
                    key={id}
                    className={hot === null ? '' : `hot st-${hot}`}
                    d={`M${x} ${y}H${toX - 16}${toY === y ? '' : `V${toY}`}H${toX}`}
                  />
                ))}
              </svg>
              {layout.nodes.map((node) => (
                <NodeBox key={node.uid} node={node} isSelected={node.uid === selected} select={select} />
              ))}
            </div>
          </div>
        )}
        <div className="filters">
          <button type="button" className="btn bare sm" onClick={() => setList(!isList)}>
            {isList ? 'As a tree' : 'As a list'}
          </button>
          <span className="push f12 ink-3">{nodes.length} objects</span>
          <StateText state="current">{healthy} healthy</StateText>
          {nodes.length > healthy ? <StateText state={worst}>{nodes.length - healthy} not healthy</StateText> : null}
          <Age at={observedAt} prefix="seen " suffix=" ago" />
        </div>
      </div>
      {chosen === undefined ? null : <NodeDetails node={chosen} close={() => select(null)} />}
    </div>
  )
}

function NodeBox({ node, isSelected, select }: { node: PlacedNode; isSelected: boolean; select: (uid: string) => void }) {
  const state = healthState(node.health)
  const isHot = state === 'failing' || state === 'degraded'
  return (
    <button
      type="button"
      className={`node st-${state} ${isHot ? 'hot' : ''} ${isSelected ? 'sel' : ''}`}
      style={{ left: node.x, top: node.y, width: node.width }}
      title={`${node.kind} ${plainText(node.name, 260)}`}
      onClick={() => select(node.uid)}
    >
      <span className="kind">{shortKind(node.kind)}</span>
      <Name text={node.name} />
      <Glyph state={state} />
      <span className="sr-only">{node.health}</span>
    </button>
  )
}

function NodeDetails({ node, close }: { node: PlacedNode; close: () => void }) {
  const state = healthState(node.health)
  return (
    <aside className="card side" aria-label="Object">
      <div className="phead">
        <span className="kind">{shortKind(node.kind)}</span>
        <h2 className="grow">
          <Name text={node.name} />
        </h2>
        <button type="button" className="btn bare sm ic" aria-label="Close" onClick={close}>
          <Icon name="x" />
        </button>
      </div>
      <div className="pad">
        <dl className="kv">
          <dt>Kind</dt>
          <dd>{node.kind}</dd>
          {node.namespace === null ? null : (
            <>
              <dt>Namespace</dt>
              <dd className="mono">{node.namespace}</dd>
            </>
          )}
          <dt>Health</dt>
          <dd>{state === 'current' ? <StateText state="current">healthy</StateText> : <Pill state={state}>{node.health}</Pill>}</dd>
          {node.message === null ? null : (
            <>
              <dt>Says</dt>
              <dd>{plainText(node.message)}</dd>
            </>
          )}
        </dl>
        <Link from="/stacks/$id" to="." search={(all: Record<string, string | undefined>) => ({ ...all, tab: 'events' })} className="link">
          Events of this stack <Icon name="arrow" size="s" />
        </Link>
      </div>
    </aside>
  )
}

const shortKinds: Readonly<Record<string, string>> = {
  Deployment: 'deploy',
  ReplicaSet: 'rs',
  StatefulSet: 'sts',
  DaemonSet: 'ds',
  Service: 'svc',
  EndpointSlice: 'eps',
  Ingress: 'ing',
  ConfigMap: 'cm',
  Secret: 'sec',
  Namespace: 'ns',
  ServiceAccount: 'sa',
  HorizontalPodAutoscaler: 'hpa',
  PersistentVolumeClaim: 'pvc',
  CustomResourceDefinition: 'crd',
}
const shortKind = (kind: string): string => shortKinds[kind] ?? plainText(kind.toLowerCase(), 14)
