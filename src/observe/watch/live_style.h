// Style and script of the live page, in addition to those of the report (report_page.h). Once a second the
// page fetches the panels that have changed, as HTML that is made and escaped here; without scripts it is
// complete but static.
#pragma once

#include <string_view>

namespace longhaul::observe {

inline constexpr std::string_view kLiveStyle = R"css(
body.live{max-width:1320px;padding:34px 28px 60px}
.live header{margin-bottom:18px}
.live h1{margin:6px 0 8px;font-size:34px}
.live h2{font-size:21px;margin:0 0 4px}
.live .panel+.panel{margin-top:18px}
.card{padding:18px 20px 16px;background:var(--card);border:1px solid var(--rule);border-radius:10px;min-width:0}
.card>.note{margin:0 0 12px;font-size:13px}
.kicker a{color:inherit}
.kicker .dot{display:inline-block;width:8px;height:8px;border-radius:50%;background:var(--xz);margin-right:8px;animation:beat 2s infinite}
.offline .kicker .dot{background:var(--bad);animation:none}
@keyframes beat{50%{opacity:.25}}
@media(prefers-reduced-motion:reduce){.kicker .dot{animation:none}}
.offline-note{display:none;margin:0 0 14px;padding:10px 16px;border-radius:10px;background:var(--bad);color:var(--card);font-size:14px}
.offline .offline-note{display:block}
.progress{height:6px;border-radius:3px;background:var(--rule);overflow:hidden;margin-top:14px}
.progress i{display:block;height:100%;background:var(--train);border-radius:3px}
.status{font-weight:600;letter-spacing:.02em}
.live .tiles{margin-bottom:0}
.live .tile{flex:1 1 132px;padding:15px 16px 13px}
.live .tile b{font-size:24px}
.tile .bad{color:var(--bad)}
.alerts{display:grid;gap:8px}
.alert{display:flex;gap:14px;align-items:baseline;flex-wrap:wrap;padding:10px 16px;border-radius:10px;border:1px solid var(--bad);color:var(--bad);background:var(--card)}
.alert.warning{border-color:var(--eval);color:var(--eval)}
.alert b{font-weight:600}.alert span{color:var(--ink)}.alert small{color:var(--muted);margin-left:auto}
.pair{display:grid;grid-template-columns:minmax(0,7fr) minmax(0,5fr);gap:18px}
.pair>*{margin:0!important;display:flex;min-width:0}.pair>*>*{flex:1;min-width:0}
.live .charts{grid-template-columns:repeat(auto-fit,minmax(330px,1fr));gap:18px}
.live .chart.wide{grid-column:auto}.live .chart.wide svg{min-width:0}
.share{display:flex;height:22px;border-radius:5px;overflow:hidden;background:var(--rule)}
.share i{display:block;min-width:1px;background:var(--fill);border-right:1px solid var(--card)}
.share-keys{display:flex;flex-wrap:wrap;gap:4px 20px;margin-top:10px;font-size:12.5px;color:var(--muted)}
.share-keys b{font-weight:400;color:var(--ink)}
.swatch{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px;background:var(--fill)}
.productive{--fill:var(--xz)}.repeated{--fill:var(--bad)}.checkpoint{--fill:var(--save)}.stopped{--fill:var(--ink)}.starting{--fill:var(--gzip)}.other{--fill:var(--rule)}
.stage{display:flex;align-items:flex-start;gap:12px;margin-top:8px}
.stage>span{flex:0 0 58px;padding-top:9px;font-size:12.5px;color:var(--muted)}
.cells{display:grid;grid-template-columns:repeat(auto-fill,minmax(var(--cell),1fr));gap:4px;flex:1}
.cell{position:relative;display:block;min-height:40px;padding:4px 5px;border-radius:6px;font-size:13px;line-height:1.2;text-align:center;text-decoration:none;
color:var(--ink);background:color-mix(in oklab,var(--card) 72%,var(--phase));border:2px solid transparent}
.cell small{display:block;font-size:10.5px;color:var(--muted);overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.cells.many .cell{min-height:26px;padding:3px 1px;font-size:11px}.cells.crowd .cell{min-height:14px;padding:0;border-radius:3px;border-width:1.5px}
.cells.many small,.cells.crowd small,.cells.crowd .cell b{display:none}
.cell b{font-weight:500}
.cell:hover,.cell:focus-visible,.cell.chosen{border-color:var(--ink);outline:none}
.cell{--phase:var(--rule)}.is-forward{--phase:var(--train)}.is-backward{--phase:var(--eval)}.is-communication{--phase:var(--resume)}.is-data{--phase:var(--gzip)}
.is-optimizer{--phase:var(--xz)}.is-checkpoint,.is-evaluation,.is-task{--phase:var(--save)}.swatch.is{background:color-mix(in oklab,var(--card) 55%,var(--phase))}
.cell.starting{border-style:dashed;border-color:var(--muted)}.cell.ended{opacity:.5}
.cell.stuck,.cell.lost{border-color:var(--bad)}.cell.stuck b,.cell.lost b{color:var(--bad)}
.cell.lost{background:repeating-linear-gradient(45deg,var(--card) 0 5px,color-mix(in oklab,var(--card) 65%,var(--bad)) 5px 10px)}
.cell.slow{border-color:var(--eval)}
.cell em{position:absolute;top:-7px;right:-5px;min-width:15px;height:15px;border-radius:8px;font:700 10px/15px var(--sans);color:var(--card);background:var(--bad)}
.cell.slow em{background:var(--eval)}
.nodes{display:flex;flex-wrap:wrap;gap:6px;margin-top:14px;font-size:12.5px}
.node{padding:3px 10px;border:1px solid var(--rule);border-radius:99px;color:var(--muted)}
.node b{font-weight:500;color:var(--ink)}.node.spare{border-style:dashed}.node.lost,.node.evicted{border-color:var(--bad)}.node.lost b,.node.evicted b{color:var(--bad)}
.latency svg{max-width:none;width:auto}.latency text{font-size:11.5px}.latency text.row{text-anchor:end}.latency text.row.slow{fill:var(--eval);font-weight:600}
.latency text.head{text-anchor:middle}.latency text.slant{text-anchor:start}.latency text.cell-text{text-anchor:middle;fill:var(--ink);pointer-events:none}
.latency .scroll{padding-bottom:4px}
.h0{fill:var(--grid)}.h1{fill:color-mix(in oklab,var(--grid) 62%,var(--eval))}.h2{fill:color-mix(in oklab,var(--grid) 30%,var(--eval))}.h3{fill:var(--eval)}
.c1{fill:color-mix(in oklab,var(--grid) 70%,var(--train))}.c2{fill:color-mix(in oklab,var(--grid) 45%,var(--train))}.c3{fill:color-mix(in oklab,var(--grid) 20%,var(--train))}
.latency a:hover text{fill:var(--ink)}
.incident{padding:14px 0 12px;border-top:1px solid var(--rule)}.incident:first-of-type{border-top:0;padding-top:4px}
.incident h3{font:600 14.5px/1.35 var(--sans);display:flex;gap:10px;align-items:baseline;flex-wrap:wrap}
.incident h3 small{margin:0 0 0 auto;font-weight:400}
.incident p{margin:5px 0 0;font-size:13.5px;overflow-wrap:anywhere}
.incident .tag{padding:0 8px;border-radius:99px;border:1px solid currentColor;color:var(--bad);font-size:12px;font-weight:500}
.incident ol{list-style:none;display:flex;margin:9px 0 0;padding:0;gap:3px;font-size:12px;color:var(--muted)}
.incident li{flex:1 1 0;border-top:4px solid var(--fill);padding-top:4px;border-radius:2px 2px 0 0}
.incident li b{display:block;font-weight:500;color:var(--ink)}
.detected{--fill:var(--bad)}.diagnosed{--fill:var(--gzip)}.recovered{--fill:var(--xz)}
.incident ul{margin:5px 0 0;padding-left:18px;font-size:13px;color:var(--muted);overflow-wrap:anywhere}
.scroll-box{max-height:560px;overflow:auto;overscroll-behavior:contain}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));gap:12px 22px;margin:12px 0 4px}
.facts div{min-width:0}.facts .long{grid-column:span 2}.facts dt{font-size:12px;color:var(--muted)}.facts dd{margin:1px 0 0;overflow-wrap:anywhere}
.rank-head{display:flex;align-items:baseline;gap:14px;flex-wrap:wrap}.rank-head a{margin-left:auto;color:var(--muted);font-size:13px}
.bars{margin-top:10px;font-size:12.5px}.bars div{display:grid;grid-template-columns:110px 1fr 150px;gap:12px;align-items:center;padding:2px 0}
.bars i{display:block;height:10px;border-radius:3px;background:var(--train);position:relative}
.bars i.over{background:var(--eval)}.bars span{color:var(--muted)}
.log{max-height:260px;overflow:auto;font-size:12px;padding:12px 16px;margin:14px 0 0;background:var(--paper)}
.runs{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:18px}
.run{display:block;color:inherit;text-decoration:none}.run:hover{border-color:var(--muted)}
.run h2{overflow-wrap:anywhere;margin-top:8px}.run .spark{color:var(--train);margin-top:12px}.run .spark path{stroke-width:1.6}
.run p{margin:6px 0 0;font-size:13px;color:var(--muted)}
.live footer{margin-top:34px}.live footer a{color:inherit}
@media(max-width:900px){.pair{grid-template-columns:minmax(0,1fr)}}
@media(max-width:760px){body.live{padding:18px 12px 40px}.live h1{font-size:26px}.live .tile{flex:1 1 40%;padding:12px 13px}.live .tile b{font-size:20px}
.card,.live .chart{padding:13px 13px 10px}.live .charts{grid-template-columns:minmax(0,1fr)}.cells:not(.many,.crowd){--cell:62px!important}.stage{display:block}.stage>span{display:block;padding:0 0 4px}
.bars div{grid-template-columns:92px 1fr 92px;gap:8px}.alert small{margin-left:0}.incident ol{flex-wrap:wrap}.incident li{flex:1 1 30%}}
)css";

inline constexpr std::string_view kLiveScript = R"js(
(()=>{
const base=document.body.dataset.base,hashes={};
const wanted=()=>{const m=/^#rank-(\d+)$/.exec(location.hash);return m?m[1]:""};
const kept=(box,change)=>{
const open=[...box.querySelectorAll("details")].map(d=>d.open),at=[...box.querySelectorAll(".scroll,.scroll-box,.log")].map(s=>[s.scrollLeft,s.scrollTop]);
change();
box.querySelectorAll("details").forEach((d,i)=>{if(open[i])d.open=true});
box.querySelectorAll(".scroll,.scroll-box,.log").forEach((s,i)=>{if(at[i])[s.scrollLeft,s.scrollTop]=at[i]})};
const show=(id,panel)=>{const box=document.getElementById("panel-"+id);
if(!box||(id==="charts"||id==="loss")&&box.querySelector(".hover"))return;
kept(box,()=>{box.innerHTML=panel.html});hashes[id]=panel.hash;
if(box.querySelector(".chart"))window.bindCharts()};
let failures=0,timer=0,last="";
const tick=async()=>{clearTimeout(timer);
if(!document.hidden){try{
const query=new URLSearchParams({narrow:innerWidth<=760?1:0,rank:wanted(),have:Object.entries(hashes).map(e=>e.join(".")).join(",")});
const answer=await fetch(base+"panels?"+query,{signal:AbortSignal.timeout(8000)});
if(!answer.ok)throw new Error(answer.status);
const news=await answer.json();document.title=news.title;
for(const id in news.panels)show(id,news.panels[id]);
if(wanted()!==last){last=wanted();document.querySelectorAll(".cell.chosen").forEach(c=>c.classList.remove("chosen"));
const box=document.getElementById("panel-rank");if(last&&box)box.scrollIntoView({behavior:"smooth",block:"nearest"})}
document.querySelectorAll('.cell[href="#rank-'+last+'"]').forEach(c=>c.classList.add("chosen"));
failures=0}catch(e){failures++}
document.body.classList.toggle("offline",failures>1)}
timer=setTimeout(tick,failures?Math.min(1000*2**failures,15000):1000)};
addEventListener("hashchange",tick);addEventListener("visibilitychange",tick);addEventListener("resize",()=>{for(const id in hashes)delete hashes[id]});
tick()})();
)js";

}  // namespace longhaul::observe
