// Style and script of report.html. Everything is inside the page: no font, style or script is fetched.
#pragma once

#include <string_view>

namespace longhaul::observe {

inline constexpr std::string_view kReportStyle = R"css(
:root{color-scheme:light dark;--paper:#fbfaf7;--card:#fff;--ink:#1d2125;--muted:#6c6f72;--rule:#e6e2d9;--grid:#efece5;
--train:#2458a6;--eval:#c8501c;--gzip:#8a6d1f;--xz:#3d7a5c;--save:#6c7a89;--resume:#7a4fa3;--bad:#c0222c;
--serif:"Iowan Old Style","Palatino Linotype",Palatino,"Book Antiqua","DejaVu Serif",Georgia,serif;
--sans:system-ui,-apple-system,"Segoe UI","Helvetica Neue","DejaVu Sans",Arial,sans-serif;
--mono:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media(prefers-color-scheme:dark){:root{--paper:#13161a;--card:#1a1e23;--ink:#e8e6e1;--muted:#969a9f;--rule:#2d3238;--grid:#24292e;
--train:#7db1f5;--eval:#f59a63;--gzip:#d6b95f;--xz:#79c7a0;--save:#93a1b0;--resume:#c39be8;--bad:#ff6b70}.line.faint{opacity:.42!important}}
*{box-sizing:border-box}
html{background:var(--paper)}
body{margin:0 auto;padding:56px 32px 72px;max-width:1180px;color:var(--ink);font:15px/1.55 var(--sans);font-variant-numeric:tabular-nums}
header{margin-bottom:36px}
.kicker{font-size:11.5px;letter-spacing:.16em;text-transform:uppercase;color:var(--muted)}
h1{font:400 40px/1.15 var(--serif);letter-spacing:-.01em;margin:10px 0 12px;overflow-wrap:anywhere}
header p{margin:0;color:var(--muted)}
.status{display:inline-block;margin-right:12px;padding:1px 10px 2px;border-radius:99px;font-size:12.5px;border:1px solid currentColor}
.status.good{color:var(--xz)}.status.warn{color:var(--eval)}.status.bad{color:var(--bad)}
.tiles{display:flex;flex-wrap:wrap;gap:1px;border:1px solid var(--rule);border-radius:10px;background:var(--rule);margin-bottom:28px;overflow:hidden}
.tile{flex:1 1 165px;padding:20px 18px 18px;background:var(--card);min-width:0}
.tile b{display:block;font:400 26px/1.15 var(--serif);letter-spacing:-.01em;white-space:nowrap}
.tile b small{font:13px var(--sans);letter-spacing:0;color:var(--muted)}
.tile .name{display:block;font-size:12px;color:var(--muted);margin-bottom:8px}
.tile .more{display:block;font-size:12.5px;line-height:1.45;color:var(--muted);margin-top:7px}
.tile .win{color:var(--xz)}.tile .loss{color:var(--eval)}
.charts{display:grid;grid-template-columns:1fr 1fr;gap:20px}
.chart{margin:0;padding:18px 20px 12px;background:var(--card);border:1px solid var(--rule);border-radius:10px;min-width:0}
.chart.wide{grid-column:1/-1}
figcaption{display:flex;flex-wrap:wrap;align-items:baseline;justify-content:space-between;gap:2px 20px;margin-bottom:8px}
figcaption p{flex-basis:100%;margin:0;font-size:12px;color:var(--muted)}
h3{font:400 18px/1.3 var(--serif);margin:0}
h3 small{font:12.5px var(--sans);color:var(--muted);margin-left:6px}
.keys{display:flex;flex-wrap:wrap;gap:2px 18px;font-size:12.5px;color:var(--muted)}
.key i{display:inline-block;width:14px;height:3px;border-radius:2px;vertical-align:middle;margin-right:6px;background:currentColor}
.key.train i{color:var(--train)}.key.eval i{color:var(--eval)}
output{color:var(--ink)}
svg{display:block;width:100%;height:auto;overflow:visible}
.chart.wide svg{min-width:640px}.scroll{overflow-x:auto;overflow-y:hidden}
svg text{font:11.5px var(--sans);fill:var(--muted)}
.grid{stroke:var(--grid)}.axis{stroke:var(--rule)}
.line{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.line.faint{stroke-width:1;opacity:.28}
.area{fill:currentColor;opacity:.16;stroke:none}
.dot{fill:var(--card);stroke:currentColor;stroke-width:1.8}
.reference{stroke:currentColor;stroke-width:1.2;stroke-dasharray:5 4}
svg .label{fill:currentColor;font-size:12px;white-space:pre;paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
.line.train,.area.train,.dot.train{color:var(--train)}.line.eval,.area.eval,.dot.eval{color:var(--eval)}
.gzip{color:var(--gzip)}.xz{color:var(--xz)}
.mark.resume,.flag.resume{color:var(--resume)}.flag.save{color:var(--save)}.mark.bad,.flag.bad{color:var(--bad)}
svg .mark{stroke:currentColor;stroke-dasharray:2 3}.flag{fill:currentColor;stroke:var(--card);stroke-width:1}
.cross{stroke:var(--muted);stroke-width:1;opacity:0;pointer-events:none}
.hover .cross{opacity:.6}
section{margin-top:44px}
.picture{margin:0 0 20px;padding:18px 20px 12px;background:var(--card);border:1px solid var(--rule);border-radius:10px;min-width:0}
.picture svg{min-width:760px}
.forward{--fill:var(--train)}.backward{--fill:var(--eval)}.input{--fill:var(--gzip)}.weight{--fill:var(--xz)}.evaluation{--fill:var(--save)}
.data{--fill:var(--rule)}.copy{--fill:var(--bad)}.update{--fill:var(--gzip)}.still{--fill:var(--card)}.call{--fill:var(--resume)}
.picture rect{fill:var(--fill)}.picture rect.box{stroke:var(--card);stroke-width:1;rx:3px}
.picture rect.still{fill-opacity:.84;stroke:var(--rule);stroke-width:.5}
.key i.swatch{width:11px;height:11px;background:var(--fill);border:1px solid var(--rule)}
svg .number{fill:var(--card);font-size:11px;pointer-events:none}
h2{font:400 24px/1.2 var(--serif);margin:0 0 14px}
.note{color:var(--muted);margin:0 0 12px}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{text-align:left;font-weight:400;font-size:12px;color:var(--muted)}
th,td{padding:6px 18px 6px 0;border-bottom:1px solid var(--rule);vertical-align:top;overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap}
code,td.c{font:12.5px/1.55 var(--mono)}
td.key{white-space:nowrap}
td.dim{color:var(--muted)}td.bad{color:var(--bad)}
.columns{display:grid;grid-template-columns:3fr 2fr;gap:0 48px}
.table{overflow-x:auto}
details{margin-top:14px}summary{cursor:pointer;color:var(--muted);font-size:13.5px}details .table{margin-top:8px}
pre{margin:0 0 14px;padding:22px 26px;background:var(--card);border:1px solid var(--rule);border-radius:10px;font:13px/1.6 var(--mono);white-space:pre-wrap;overflow-wrap:anywhere}
pre .prompt{color:var(--muted)}pre .text{color:var(--ink)}
.legend{font-size:12.5px;color:var(--muted);margin:12px 2px 0}
.legend svg{display:inline-block;width:10px;height:10px;vertical-align:-1px;margin:0 5px 0 14px}.legend svg:first-child{margin-left:0}
footer{margin-top:52px;padding-top:16px;border-top:1px solid var(--rule);font-size:12.5px;color:var(--muted)}
@media(max-width:760px){body{padding:28px 16px}h1{font-size:30px}.charts,.columns{grid-template-columns:1fr}
.tile{padding:16px 14px}.chart,.picture{padding:14px 14px 8px}
td:first-child,th:first-child{min-width:8.5em;overflow-wrap:break-word}th,td{padding-right:12px}
.picture svg,.chart.wide svg{min-width:560px}
.picture figcaption::after,.chart.wide figcaption::after{content:"Wider than this screen: move it sideways.";flex-basis:100%;font-size:12px;color:var(--muted)}}
@media print{body{padding:0;max-width:none}.chart,.tile,pre{break-inside:avoid}}
)css";

// Under the pointer all charts show the values of the same step. Call bindCharts() again after charts were
// replaced.
inline constexpr std::string_view kReportScript = R"js(
(window.bindCharts=()=>{
const trim=(v,d)=>v.toFixed(d);
const forms={fixed4:v=>trim(v,4),fixed3:v=>trim(v,3),grouped:v=>Math.round(v).toLocaleString("en-US"),percent:v=>trim(v*100,1)+" %",
scientific:v=>v===0?"0":v.toExponential(2).replace("e+","e"),milliseconds:v=>v<10?trim(v,1)+" ms":v<10000?trim(v,0)+" ms":trim(v/1000,1)+" s"};
const charts=[...document.querySelectorAll(".chart")].map(figure=>({figure,svg:figure.querySelector("svg"),cross:figure.querySelector(".cross"),
data:JSON.parse(figure.querySelector("script").textContent),
outputs:[...figure.querySelectorAll("output")].map(o=>({node:o,at:+o.dataset.series,rest:o.textContent}))}));
const steps=document.getElementById("step");
const nearest=(xs,x)=>{let a=0,b=xs.length-1;while(a<b){const m=(a+b)>>1;xs[m]<x?a=m+1:b=m}
return a>0&&Math.abs(xs[a-1]-x)<Math.abs(xs[a]-x)?a-1:a};
const show=x=>charts.forEach(c=>{const d=c.data,p=d.left+(d.right-d.left)*x/d.x_max;
c.figure.classList.add("hover");c.cross.setAttribute("x1",p);c.cross.setAttribute("x2",p);
c.outputs.forEach(o=>{const s=d.series[o.at];if(s.x.length)o.node.textContent=forms[s.form](s.y[nearest(s.x,x)])})});
const rest=()=>{steps.textContent="";charts.forEach(c=>{c.figure.classList.remove("hover");c.outputs.forEach(o=>o.node.textContent=o.rest)})};
charts.forEach(c=>{c.svg.onpointermove=e=>{const r=c.svg.getBoundingClientRect(),d=c.data;
const x=((e.clientX-r.left)/r.width*d.width-d.left)/(d.right-d.left)*d.x_max;
if(x<0||x>d.x_max*1.01)return rest();show(x);steps.textContent="step "+Math.round(x).toLocaleString("en-US")};
c.svg.onpointerleave=rest});
})();
)js";

}  // namespace longhaul::observe
